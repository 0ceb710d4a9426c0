"""Faults of webhooks to seed: who is believed, where a request goes, how long it may take, what is lost."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

WEBHOOKS = {
    "signature-without-time": Fault(
        "signing.signed",
        'content = f"{message_id}.{timestamp}.".encode() + body',
        'content = f"{message_id}.".encode() + body',
    ),
    "one-key-signs": Fault("signing.signed", "for key in keys),", "for key in keys[:1]),"),
    "old-deliveries-are-good": Fault("signing.verify", "if abs(off) > tolerance_seconds:", "if False:"),
    "addresses-unchecked": Fault("address.checked", "if not inside and not is_public(address):", "if False:"),
    "first-address-decides": Fault(
        "address.checked", "for address in addresses:", "for address in addresses[:1]:"
    ),
    "looked-up-twice": Fault(
        "Post._connected",
        "                    str(address),\n",
        "                    (await self._resolve(place.host, place.port))[0],\n",
    ),
    "reads-timed-one-by-one": Fault(
        "Post.__call__", "async with asyncio.timeout(deadline_seconds):", "async with asyncio.timeout(60):"
    ),
    "answers-without-end": Fault(
        "Exchange.data_received", "elif self._body_bytes > BODY_BYTES_MAX:", "elif False:"
    ),
    "certificates-unchecked": Fault(
        "Post.__init__",
        "self._tls = tls or ssl.create_default_context()",
        "self._tls = ssl._create_unverified_context()",
    ),
    "delivery-unsigned": Fault(
        "_Desk._attempted",
        "headers = signed(target.keys, task.payload.event, signed_at, body)",
        "headers = signed(target.keys, task.payload.event, signed_at, b'')",
    ),
    "fast-phase-skipped": Fault("webhooks.retry", "DELAYS = (*FAST, *SLOW)", "DELAYS = (*SLOW, *FAST)"),
    "retry-after-ignored": Fault(
        "retry.delay", "return usual if asked is None else", "return usual if True else"
    ),
    "gone-goes-on": Fault("_Desk._failed", "if attempt.status == 410:", "if False:"),
    "breaker-spends-attempts": Fault(
        "_Desk._ready",
        "return Snooze(until_asked_again(left, task.polls)), False",
        'return Retry("left alone", left), False',
    ),
    "backlog-wakes-as-one": Fault("retry.until_asked_again", "max(left, 2.0**polls)", "2.0**polls"),
    "all-probe-at-once": Fault(
        "probe",
        "where id = %(id)s and left_alone_until not between now() and now() + make_interval(secs => %(seconds_max)s::double precision)\nreturning true",
        "where id = %(id)s\nreturning true",
    ),
    "order-not-kept": Fault(
        "publish.delivery_task", "bucket=lane if in_order else", "bucket=None if in_order else"
    ),
    "rotation-at-once": Fault(
        "for_delivery", "(k.retires_at is null or k.retires_at > now())", "k.retires_at is null"
    ),
    "resent-under-another-id": Fault(
        "Resend._again",
        "deliveries = [Delivery.model_validate_json(payload) for payload in payloads]",
        "deliveries = [Delivery.model_validate_json(payload).model_copy(update={'event': str(uuid4())}) for payload in payloads]",
    ),
    "secrets-shown-again": Fault(
        "endpoints",
        "array(select k.id from",
        "array(select k.id || ' whsec_' || encode(k.secret, 'base64') from",
    ),
    "secrets-in-the-log": Fault(
        "_Desk._attempted", "[key.id for key in target.keys],", "[key.secret.hex() for key in target.keys],"
    ),
    "published-without-its-deliveries": Fault(
        "Publish.__call__",
        "for some in _slices(deliveries):",
        "for some in _slices(deliveries[1:]):",
    ),
    "api-reads-secrets": Fault(
        "grants",
        "revoke select on holdfast.webhook_keys from holdfast_api, holdfast_operator;\n",
        "",
    ),
    "lookups-not-shared": Fault(
        "SystemResolver.__call__", "asked = self._asked.get((host, port))", "asked = None"
    ),
    "idle-connections-kept": Fault(
        "Post._sweep",
        "                if not exchange.fresh():\n                    exchange.abort()",
        "                pass",
    ),
    "log-decides-deliveries": Fault(
        "LogWriter._keep",
        "                if last:\n                    self._listen(",
        "                if last:\n                    raise\n                    self._listen(",
    ),
    "old-failures-against-a-new-address": Fault(
        "change",
        "failing_since = case when e.url = %(url)s then e.failing_since end,",
        "failing_since = e.failing_since,",
    ),
    "fan-out-in-one-statement": Fault("publish._slices", "            yield tasks[begin:place]\n", ""),
}
