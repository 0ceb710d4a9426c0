"""Faults about locks that other sessions hold."""

from tests.fault import Fault

LOCKS = {
    "short-waits-are-named": Fault("blockers", " and l.waitstart < clock_timestamp() - interval '0.2 s'", ""),
    "locks-waited-for-until-the-deadline": Fault(
        "Link._connected", "lock_seconds=self._lock_seconds, path", "lock_seconds=None, path"
    ),
    "backend-outlives-its-client": Fault(
        "db.connect", "-c client_connection_check_interval=2s", "-c client_connection_check_interval=0"
    ),
    "api-backend-outlives-its-client": Fault(
        "PoolConnection.connect", 'f"{CLIENT_CHECKED} {OWN_PATH}', 'f"{OWN_PATH}'
    ),
    "api-waits-for-any-lock": Fault(
        "PoolConnection.connect", "lock_timeout={LOCK_SECONDS * 1_000:.0f}", "lock_timeout=0"
    ),
    "sends-beside-the-abandoned": Fault(
        "Link._after_the_abandoned", "            if blocked:\n", "            if False:\n"
    ),
    "lock-blamed-on-the-database": Fault(
        "Link.use",
        "await (self._drop() if self._unreported else self._forget(message))",
        "await self._forget(message)",
    ),
    "late-statement-not-told": Fault(
        "Link._after_the_abandoned", "            if unreported:\n", "            if False:\n"
    ),
    "blocker-not-named": Fault("LockWatch._look", "                self._listen(_locked(blocker))\n", ""),
    "blocker-named-again": Fault(
        "LockWatch._look", "            if key not in self._named:\n", "            if True:\n"
    ),
    "blocked-chore-stops-the-others": Fault(
        "Maintenance.turn", "                    blocked = error\n", "                    raise\n"
    ),
    "finish-opens-beside-the-locked": Fault(
        "Finishing._held_up", "time.monotonic() - began > HELD_UP_SECONDS", "False"
    ),
}
