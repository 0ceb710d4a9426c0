"""Faults of webhooks to seed: who is believed, where a request goes, how long it may take, what is lost."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SIGNING = "webhooks/signing.py"
ADDRESS = "webhooks/address.py"
POST = "webhooks/post.py"
DELIVER = "webhooks/deliver.py"

WEBHOOKS = {
    "signature-without-time": Fault(
        SIGNING,
        'content = f"{message_id}.{timestamp}.".encode() + body',
        'content = f"{message_id}.".encode() + body',
    ),
    "one-key-signs": Fault(SIGNING, "for key in keys),", "for key in keys[:1]),"),
    "old-deliveries-are-good": Fault(SIGNING, "if abs(off) > tolerance_seconds:", "if False:"),
    "addresses-unchecked": Fault(ADDRESS, "if not inside and not is_public(address):", "if False:"),
    "first-address-decides": Fault(ADDRESS, "for address in addresses:", "for address in addresses[:1]:"),
    "looked-up-twice": Fault(
        POST,
        "                    str(address),\n",
        "                    (await self._resolve(place.host, place.port))[0],\n",
    ),
    "reads-timed-one-by-one": Fault(
        POST, "async with asyncio.timeout(deadline_seconds):", "async with asyncio.timeout(60):"
    ),
    "answers-without-end": Fault(
        "webhooks/exchange.py", "elif self._body_bytes > BODY_BYTES_MAX:", "elif False:"
    ),
    "certificates-unchecked": Fault(
        POST,
        "self._tls = tls or ssl.create_default_context()",
        "self._tls = ssl._create_unverified_context()",
    ),
    "delivery-unsigned": Fault(
        DELIVER,
        "headers = signed(target.keys, task.payload.event, signed_at, body)",
        "headers = signed(target.keys, task.payload.event, signed_at, b'')",
    ),
    "fast-phase-skipped": Fault("webhooks/patience.py", "DELAYS = (*FAST, *SLOW)", "DELAYS = (*SLOW, *FAST)"),
    "retry-after-ignored": Fault(
        "webhooks/patience.py", "return usual if asked is None else", "return usual if True else"
    ),
    "gone-goes-on": Fault(DELIVER, "if attempt.status == 410:", "if False:"),
    "breaker-spends-attempts": Fault(
        DELIVER,
        "return Snooze(until_asked_again(left, task.polls)), False",
        'return Retry("left alone", left), False',
    ),
    "backlog-wakes-as-one": Fault("webhooks/patience.py", "max(left, 2.0**polls)", "2.0**polls"),
    "all-probe-at-once": Fault(
        "webhooks/webhooks.sql",
        "where id = %(id)s and left_alone_until not between now() and now() + make_interval(secs => %(seconds_max)s::double precision)\nreturning true",
        "where id = %(id)s\nreturning true",
    ),
    "order-not-kept": Fault(
        "webhooks/publish.py", "bucket=lane if in_order else", "bucket=None if in_order else"
    ),
    "rotation-at-once": Fault(
        "webhooks/webhooks.sql", "(k.retires_at is null or k.retires_at > now())", "k.retires_at is null"
    ),
    "resent-under-another-id": Fault(
        "webhooks/resend.py",
        "deliveries = [Delivery.model_validate_json(payload) for payload in payloads]",
        "deliveries = [Delivery.model_validate_json(payload).model_copy(update={'event': str(uuid4())}) for payload in payloads]",
    ),
    "secrets-shown-again": Fault(
        "webhooks/webhooks.sql",
        "array(select k.id from",
        "array(select k.id || ' whsec_' || encode(k.secret, 'base64') from",
    ),
    "secrets-in-the-log": Fault(
        DELIVER, "[key.id for key in target.keys],", "[key.secret.hex() for key in target.keys],"
    ),
    "published-without-its-deliveries": Fault(
        "webhooks/publish.py",
        "for some in _slices(deliveries):",
        "for some in _slices(deliveries[1:]):",
    ),
    "api-reads-secrets": Fault(
        "store/grants.sql",
        "revoke select on holdfast.webhook_keys from holdfast_api, holdfast_operator;\n",
        "",
    ),
    "lookups-not-shared": Fault(ADDRESS, "asked = self._asked.get((host, port))", "asked = None"),
    "idle-connections-kept": Fault(
        POST,
        "                if not exchange.fresh():\n                    exchange.abort()",
        "                pass",
    ),
    "log-decides-deliveries": Fault(
        "webhooks/log.py",
        "                if last:\n                    self._listen(",
        "                if last:\n                    raise\n                    self._listen(",
    ),
    "old-failures-against-a-new-address": Fault(
        "webhooks/webhooks.sql",
        "failing_since = case when e.url = %(url)s then e.failing_since end,",
        "failing_since = e.failing_since,",
    ),
    "fan-out-in-one-statement": Fault("webhooks/publish.py", "            yield tasks[begin:place]\n", ""),
}
