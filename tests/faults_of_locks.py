"""Faults about locks that other sessions hold."""

from tests.fault import Fault

LINK = "runtime/link.py"
WATCH = "runtime/lockwatch.py"

LOCKS = {
    "locks-waited-for-until-the-deadline": Fault(
        LINK, "lock_seconds=self._lock_seconds, path", "lock_seconds=None, path"
    ),
    "backend-outlives-its-client": Fault(
        "store/pool.py", "-c client_connection_check_interval=2s", "-c client_connection_check_interval=0"
    ),
    "api-backend-outlives-its-client": Fault(
        "http/service.py", 'f"{CLIENT_CHECKED} {OWN_PATH}', 'f"{OWN_PATH}'
    ),
    "api-waits-for-any-lock": Fault(
        "http/service.py", "lock_timeout={LOCK_SECONDS * 1_000:.0f}", "lock_timeout=0"
    ),
    "sends-beside-the-abandoned": Fault(LINK, "            if blocked:\n", "            if False:\n"),
    "lock-blamed-on-the-database": Fault(
        LINK,
        "await (self._drop() if self._unreported else self._forget(message))",
        "await self._forget(message)",
    ),
    "late-statement-not-told": Fault(LINK, "            if unreported:\n", "            if False:\n"),
    "blocker-not-named": Fault(WATCH, "                self._listen(_locked(blocker))\n", ""),
    "blocker-named-again": Fault(WATCH, "            if key not in self._named:\n", "            if True:\n"),
    "blocked-chore-stops-the-others": Fault(
        "runtime/maintenance.py", "                    blocked = error\n", "                    raise\n"
    ),
    "finish-opens-beside-the-locked": Fault(
        "runtime/finish.py", "time.monotonic() - began > HELD_UP_SECONDS", "False"
    ),
}
