"""Faults to seed in what protects the HTTP API from its clients: caps, deadlines, and who is believed."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

CLIENTS = {
    "export-holds-a-connection": Fault(
        "audit._pieces",
        "    async for piece in AuditReader(service.settings).export_by_pages(connection, only, how):\n        yield piece\n        # Sending",
        "    async with connection() as conn:\n        async for piece in AuditReader(service.settings).export(conn, only, how):\n            yield piece\n    if True:\n        # Sending",
    ),
    "exports-without-end": Fault("OpenLimit.check", "if self._held[token] >= self._each:", "if False:"),
    "one-token-takes-the-pool": Fault("http.auth", "\nSHARE = 5\n", "\nSHARE = 500\n"),
    "sessions-without-end": Fault(
        "Sessions.begin",
        '        await conn.execute(self._sql["end_oldest_sessions"], {"token": bearer.token, "keep": OPEN_MAX})\n',
        "",
    ),
    "sessions-at-any-rate": Fault(
        "Authenticator.limit_sessions",
        "if not self._session_rates.take(bearer.token, SESSIONS_RATE, SESSIONS_BURST):",
        "if False:",
    ),
    "workers-begin-sessions": Fault(
        "Authenticator.limit_sessions", "        if bearer.role is Role.WORKER:\n", "        if False:\n"
    ),
    "anybody-takes-a-connection": Fault(
        "Service.admit",
        "        presented = self.auth.presented(request)\n",
        "        async with self.pool.connection():\n            presented = self.auth.presented(request)\n",
    ),
    "guesses-take-connections": Fault("Lookups.holder", "if self._next is None:", "if True:"),
    "readiness-from-the-pool": Fault(
        "Readiness._look", "await self._service.pool.connect()", "await self._service.pool._pool.getconn()"
    ),
    "streams-of-revoked-tokens": Fault(
        "Live._check_on", "if credential in held and credential not in good:", "if False:"
    ),
    "headers-take-for-ever": Fault("http.protocol", "Phase.HEADERS: HEADERS_SECONDS, ", ""),
    "bodies-take-for-ever": Fault("Bodies.receive", "asyncio.timeout(seconds)", "asyncio.timeout(None)"),
    "unread-for-ever": Fault(
        "LimitedProtocol.is_overdue", "return now - self._sent_at > SEND_SECONDS", "return False"
    ),
    "newest-is-closed": Fault("Connections.add", "self._oldest() or new", "new"),
    "acts-of-half-a-request": Fault(
        "Bodies.receive", "                    raise ClientGone\n", "                    break\n"
    ),
    "first-header-wins": Fault("proxies._single", "if len(values) > 1:", "if False:"),
    "loopback-without-a-secret": Fault("Proxy.of", "if not secret and any(", "if False and any("),
    "own-address-is-the-proxy": Fault(
        "Proxy._why_not_sender", "is_own = peer.is_loopback or peer == _address(own)", "is_own = False"
    ),
    "any-secret": Fault(
        "Proxy._why_not_sender", "hmac.compare_digest(sent.encode(), self.secret.encode())", "bool(sent)"
    ),
    "bodies-of-anybody": Fault(
        "BoundsMiddleware._bytes_max",
        "        except Refused:\n            return ANONYMOUS_BYTES_MAX\n",
        "        except Refused:\n            pass\n",
    ),
    "unknown-members-one-by-one": Fault(
        "Shape._bounded", "if isinstance(given, Mapping) and len(given) >", "if False and len(given) >"
    ),
    "bodies-without-end": Fault(
        "Bodies._count", "while self._held > self._most and counted:", "while False:"
    ),
    "traits-of-any-size": Fault(
        "ops.groups", "SAMPLE_BYTES_EACH = 8_000\n", "SAMPLE_BYTES_EACH = 8_000_000\n"
    ),
    "queues-without-end": Fault("queues", "limit %(queues_max)s::integer + 1\n)", "limit 1000000000\n)"),
    "workers-of-a-token-without-end": Fault("HttpWorkerRows.enter", "if row[0] >= LIVE_MAX:", "if False:"),
    "pauses-to-any-year": Fault(
        "bounds.check_moment",
        "if not now - timedelta(days=PAST_DAYS_MAX) <= at",
        "if False and not now <= at",
    ),
    "unreadable-times": Fault(
        "pool._configure", '    conn.adapters.register_loader("timestamptz", ReadableTimes)\n', ""
    ),
    "rates-of-any-length": Fault(
        "Limit.__post_init__", "if (self.rate_seconds or 0) > WINDOW_SECONDS_MAX or", "if"
    ),
    "host-made-up": Fault(
        "identity.present",
        "if len(hosts) != 1 or LOOPBACK.fullmatch(hosts[0]) is None:",
        "if (request.url.hostname or '') not in {'localhost', '127.0.0.1', '::1'}:",
    ),
    "spelled-otherwise-approves": Fault("Proxy.bearer", "_as_sent(name)).casefold()", "_as_sent(name))"),
    "late-reports-of-others": Fault(
        "HttpWorkers._ended_before", " and await self._rows.may_be_late(conn, worker, *held):", ":"
    ),
    "anybody-unmasks": Fault(
        "HttpWorkers._declare", "secrets.keys() - declared.keys() - set(own_kinds)", "set()"
    ),
    "previews-ask-about-all": Fault("PlanGuards.ask_some", "if left >= 0 and characters >= 0:", "if True:"),
    "parameters-without-end": Fault(
        "middleware._too_long", 'if query.count(b"&") >= PARAMETERS_MAX:', "if False:"
    ),
    "document-for-anybody": Fault(
        "application.create", "openapi_url=None", 'openapi_url="/api/openapi.json"'
    ),
}
