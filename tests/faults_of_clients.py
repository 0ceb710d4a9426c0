"""Faults to seed in what protects the HTTP API from its clients: caps, deadlines, and who is believed."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SERVICE = "http/service.py"
PROTOCOL = "http/protocol.py"
PROXIES = "http/proxies.py"

CLIENTS = {
    "export-holds-a-connection": Fault(
        "http/audit.py",
        "    async for piece in AuditReader(service.settings).export_by_pages(connection, only, how):\n        yield piece\n        # Sending",
        "    async with connection() as conn:\n        async for piece in AuditReader(service.settings).export(conn, only, how):\n            yield piece\n    if True:\n        # Sending",
    ),
    "exports-without-end": Fault("http/quotas.py", "if self._held[token] >= self._each:", "if False:"),
    "one-token-takes-the-pool": Fault(SERVICE, "\nSHARE = 5\n", "\nSHARE = 500\n"),
    "sessions-without-end": Fault(
        "ops/sessions.py",
        '        await conn.execute(self._sql["end_oldest_sessions"], {"token": bearer.token, "keep": OPEN_MAX})\n',
        "",
    ),
    "sessions-at-any-rate": Fault(
        SERVICE,
        "if not self._session_rates.take(bearer.token, SESSIONS_RATE, SESSIONS_BURST):",
        "if False:",
    ),
    "workers-begin-sessions": Fault(
        SERVICE, "        if bearer.role is Role.WORKER:\n", "        if False:\n"
    ),
    "anybody-takes-a-connection": Fault(
        SERVICE,
        "        presented = present(request, self._auth, self._proxy)\n",
        "        async with self.connection():\n            presented = present(request, self._auth, self._proxy)\n",
    ),
    "guesses-take-connections": Fault("http/identity.py", "if self._next is None:", "if True:"),
    "readiness-from-the-pool": Fault(
        "http/readiness.py", "await self._service.connect()", "await self._service._pool.getconn()"
    ),
    "streams-of-revoked-tokens": Fault(
        "http/live.py", "if credential in held and credential not in good:", "if False:"
    ),
    "headers-take-for-ever": Fault(PROTOCOL, "Phase.HEADERS: HEADERS_SECONDS, ", ""),
    "bodies-take-for-ever": Fault("http/bodies.py", "asyncio.timeout(seconds)", "asyncio.timeout(None)"),
    "unread-for-ever": Fault(PROTOCOL, "return now - self._sent_at > SEND_SECONDS", "return False"),
    "newest-is-closed": Fault(PROTOCOL, "self._oldest() or new", "new"),
    "acts-of-half-a-request": Fault(
        "http/bodies.py", "                    raise ClientGone\n", "                    break\n"
    ),
    "first-header-wins": Fault(PROXIES, "if len(values) > 1:", "if False:"),
    "loopback-without-a-secret": Fault(PROXIES, "if not secret and any(", "if False and any("),
    "own-address-is-the-proxy": Fault(
        PROXIES, "is_own = peer.is_loopback or peer == _address(own)", "is_own = False"
    ),
    "any-secret": Fault(PROXIES, "hmac.compare_digest(sent.encode(), self.secret.encode())", "bool(sent)"),
    "bodies-of-anybody": Fault(
        "http/bounds.py",
        "        except Refused:\n            return ANONYMOUS_BYTES_MAX\n",
        "        except Refused:\n            pass\n",
    ),
    "unknown-members-one-by-one": Fault(
        "http/shapes.py", "if isinstance(given, Mapping) and len(given) >", "if False and len(given) >"
    ),
    "bodies-without-end": Fault(
        "http/bodies.py", "while self._held > self._most and counted:", "while False:"
    ),
    "traits-of-any-size": Fault(
        "ops/groups.py", "SAMPLE_BYTES_EACH = 8_000\n", "SAMPLE_BYTES_EACH = 8_000_000\n"
    ),
    "queues-without-end": Fault(
        "store/views.sql", "limit %(queues_max)s::integer + 1\n)", "limit 1000000000\n)"
    ),
    "workers-of-a-token-without-end": Fault("store/outside.py", "if row[0] >= LIVE_MAX:", "if False:"),
    "pauses-to-any-year": Fault(
        "core/bounds.py", "if not now - timedelta(days=PAST_DAYS_MAX) <= at", "if False and not now <= at"
    ),
    "unreadable-times": Fault(
        SERVICE, '    conn.adapters.register_loader("timestamptz", ReadableTimes)\n', ""
    ),
    "rates-of-any-length": Fault(
        "core/limit.py", "if (self.rate_seconds or 0) > WINDOW_SECONDS_MAX or", "if"
    ),
    "host-made-up": Fault(
        "http/identity.py",
        "if len(hosts) != 1 or LOOPBACK.fullmatch(hosts[0]) is None:",
        "if (request.url.hostname or '') not in {'localhost', '127.0.0.1', '::1'}:",
    ),
    "spelled-otherwise-approves": Fault(PROXIES, "_as_sent(name)).casefold()", "_as_sent(name))"),
    "late-reports-of-strangers": Fault(
        "runtime/outside.py", " and await self._rows.may_be_late(conn, worker, *held):", ":"
    ),
    "anybody-unmasks": Fault(
        "runtime/outside.py", "secrets.keys() - declared.keys() - set(own_kinds)", "set()"
    ),
    "previews-ask-about-all": Fault("ops/guards.py", "if left >= 0 and characters >= 0:", "if True:"),
    "parameters-without-end": Fault("http/bounds.py", 'if query.count(b"&") >= PARAMETERS_MAX:', "if False:"),
    "document-for-anybody": Fault(
        "http/application.py", "openapi_url=None", 'openapi_url="/api/openapi.json"'
    ),
}
