"""Corrects stored times after the database's clock was set; each correction is idempotent."""

from holdfast.config import Settings
from holdfast.core.step import Step
from holdfast.db.connect import Conn
from holdfast.db.statements import load

STILL_DUE_LIMIT = 20_000


class ClockSteps:
    """The corrections that maintenance applies after a step."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("store/clock_steps.sql", settings.schema_name)

    async def adjust_leases(self, conn: Conn, lease_seconds: float, forward_seconds: float = 0.0) -> None:
        """Restart leases that a step of the clock ended early or prolonged."""
        values = {"forward": forward_seconds, "lease": lease_seconds}
        await conn.execute(self._sql["adjust_leases"], values)

    async def begin_ramps(self, conn: Conn) -> None:
        """After a step forward: restart the ramps of running plans, whose allowance grows with time."""
        await conn.execute(self._sql["begin_ramps"])

    async def bring_back(self, conn: Conn) -> None:
        """After a step back: reset times of past events that are now in the future."""
        await conn.execute(self._sql["bring_back"])

    async def keep_due(self, conn: Conn, step: Step, limit: int = STILL_DUE_LIMIT) -> int:
        """After a step back: tasks that were due stay due; return how many were moved to now."""
        values = {"before": step.before, "after": step.after, "limit": limit}
        row = await (await conn.execute(self._sql["still_due"], values)).fetchone()
        assert row is not None, "a count always answers"
        moved: int = row[0]
        return moved
