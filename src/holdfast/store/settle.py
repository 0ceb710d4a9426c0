"""Writes a group of verdicts in one transaction, each under its fence.

One value that the database cannot store fails alone; a late verdict is refused, recorded and told. A group
whose rows somebody else has moved meanwhile is written again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.config import Settings
from holdfast.core.decide import Verdict
from holdfast.core.events import (
    LateResultsRefused,
    Listener,
    PartitionMissing,
    ResultRejected,
    TasksMissing,
    TasksSettled,
)
from holdfast.core.failure import DeadReason, Failure, FailureClass, kept
from holdfast.core.state import Move
from holdfast.core.task import Claim, Counters
from holdfast.db.connect import Conn
from holdfast.db.partitions import PARTITIONED, ensure_partitions
from holdfast.db.statements import load

Settlement: TypeAlias = tuple[Claim, Verdict]

# What PostgreSQL answers when a value cannot be stored, whatever the rest of the group is like; or the
# driver, before it is asked.
_UNSTORABLE = (
    UnicodeEncodeError,
    psycopg.DataError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
)
# What it answers when somebody else writes to the same rows; all of the statement was rolled back.
_MOVED = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a group of verdicts."""

    accepted: Sequence[Settlement]
    refused: Sequence[Settlement]


class Settler:
    """Writes verdicts; `Store` is its face."""

    def __init__(self, settings: Settings, listen: Listener) -> None:
        self._settings = settings
        self._listen = listen
        self._sql = load("store/settle.sql", settings.schema_name)

    async def settle(self, conn: Conn, settlements: Sequence[Settlement]) -> Settled:
        """Write the verdicts of one holder; late ones are refused, recorded and told."""
        settled = await self.write(conn, settlements)
        await self.refuse(conn, settled.refused)
        return settled

    async def settle_again(self, conn: Conn, settlements: Sequence[Settlement]) -> Settled:
        """Settle after an answer was lost: what was written the first time counts as accepted."""
        settled = await self.write(conn, settlements)
        if not settled.refused:
            return settled
        before = await self.landed(
            conn, [(claim.id, claim.fence, verdict.move) for claim, verdict in settled.refused]
        )
        late = [one for one in settled.refused if (one[0].id, one[0].fence) not in before]
        await self.refuse(conn, late)
        done = [one for one in settled.refused if (one[0].id, one[0].fence) in before]
        if done:
            # Nobody was told when they landed.
            self._listen(TasksSettled(done))
        return Settled([*settled.accepted, *done], late)

    async def landed(self, conn: Conn, told: Sequence[tuple[str, int, str]]) -> set[tuple[object, ...]]:
        """Which of these (task, fence, move) were written, by task and fence."""
        values = {
            "ids": array_literal(id_ for id_, _, _ in told),
            "fences": array_literal(str(fence) for _, fence, _ in told),
            "moves": [str(move) for _, _, move in told],
        }
        return set(await (await conn.execute(self._sql["settled_before"], values)).fetchall())

    async def write(self, conn: Conn, settlements: Sequence[Settlement]) -> Settled:
        """Write a group in one transaction; one bad value must not hold up the others."""
        fit = [one if one[1].result is None else self._fit(*one) for one in settlements]
        accepted = await self._bisect(conn, fit)
        refused = _but(fit, accepted) if len(accepted) < len(fit) else []
        if refused:
            # A statement skips a row of running that somebody else moves meanwhile; a new one finds it.
            accepted += await self._bisect(conn, refused)
            refused = _but(fit, accepted)
        if accepted:
            self._listen(TasksSettled(accepted))
        return Settled(accepted, refused)

    async def drop_missing(self, conn: Conn, held: Iterable[tuple[str, int]]) -> None:
        """Drop those of these claims whose tasks somebody has deleted, and tell of them."""
        cursor = await conn.execute(self._sql["drop_missing"], _arrays(held))
        ids = [id_ for (id_,) in await cursor.fetchall()]
        if ids:
            self._listen(TasksMissing(ids))

    async def _bisect(self, conn: Conn, group: Sequence[Settlement], tries: int = _TRIES) -> list[Settlement]:
        if not group:
            return []
        try:
            return await self._write_group(conn, group)
        except psycopg.errors.CheckViolation as error:
            await self._make_days(conn, error)
            return await self._write_group(conn, group)
        except _MOVED:
            if tries:
                await self.drop_missing(conn, [(claim.id, claim.fence) for claim, _ in group])
                return await self._bisect(conn, group, tries - 1)
            if len(group) == 1:
                raise
            return await self._halves(conn, group)
        except _UNSTORABLE as error:
            if len(group) > 1:
                return await self._halves(conn, group)
            claim, verdict = group[0]
            if verdict.failure is not None and verdict.failure.failure_class is FailureClass.INVALID:
                raise
            return await self._bisect(conn, [self._reject(claim, _why(error))])

    async def _halves(self, conn: Conn, group: Sequence[Settlement]) -> list[Settlement]:
        half = len(group) // 2
        first = await self._bisect(conn, group[:half])
        return first + await self._bisect(conn, group[half:])

    async def _make_days(self, conn: Conn, error: psycopg.errors.CheckViolation) -> None:
        """Heal a settle that found no partition for its day; any other violation is passed on."""
        table = error.diag.table_name or ""
        if error.diag.constraint_name is not None or table not in PARTITIONED:
            raise error
        self._listen(PartitionMissing(table))
        await ensure_partitions(conn, self._settings.schema_name)

    async def _write_group(self, conn: Conn, group: Sequence[Settlement]) -> list[Settlement]:
        # In the order of their ids, so that two who settle the same tasks cannot deadlock.
        group = sorted(group, key=lambda settlement: settlement[0].id)
        done = [settlement for settlement in group if settlement[1].move is Move.COMPLETE]
        rest = [settlement for settlement in group if settlement[1].move is not Move.COMPLETE]
        idle = conn.info.transaction_status is TransactionStatus.IDLE
        if not rest and idle:
            return await self._complete(conn, done)
        # Inside the caller's transaction this is a savepoint: a group that is refused leaves it whole.
        async with conn.transaction():
            if rest:
                ids = {"ids": array_literal(claim.id for claim, _ in group)}
                await conn.execute(self._sql["lock_running"], ids)
            accepted = await self._complete(conn, done) if done else []
            if rest:
                values = {"verdicts": json.dumps([_record(*one) for one in rest]), "now": None}
                accepted += await self._accepted(conn, self._sql["settle"], values, rest)
        return accepted

    async def _complete(self, conn: Conn, group: Sequence[Settlement]) -> list[Settlement]:
        results = [verdict.result for _, verdict in group]
        values: dict[str, object] = dict(_claim_arrays(claim for claim, _ in group))
        values["results"] = results if any(result is not None for result in results) else None
        values["now"] = None
        return await self._accepted(conn, self._sql["complete"], values, group)

    async def _accepted(
        self,
        conn: Conn,
        statement: LiteralString,
        values: Mapping[str, object],
        group: Sequence[Settlement],
    ) -> list[Settlement]:
        rows = await (await conn.execute(statement, values)).fetchall()
        if len(rows) == len(group):
            return list(group)
        # By fence too: a group may hold an old and a new claim of one task.
        heard = set(rows)
        return [one for one in group if (one[0].id, one[0].fence) in heard]

    async def refuse(self, conn: Conn, late: Sequence[Settlement]) -> None:
        """Record and tell that these came too late."""
        if not late:
            return
        values: dict[str, object] = dict(_claim_arrays(claim for claim, _ in late))
        values |= {
            "kinds": [claim.kind for claim, _ in late],
            "starts": [claim.claimed_at for claim, _ in late],
            "reasons": [f"late {verdict.move}" for _, verdict in late],
            "worker": late[0][0].worker,
            "now": None,
        }
        try:
            async with conn.transaction():
                await conn.execute(self._sql["note_late"], values)
        except psycopg.errors.CheckViolation as error:
            await self._make_days(conn, error)
            await conn.execute(self._sql["note_late"], values)
        self._listen(LateResultsRefused(late))

    def _fit(self, claim: Claim, verdict: Verdict) -> Settlement:
        result = verdict.result or ""
        limit = self._settings.result_bytes_max
        if len(result) * 4 > limit and len(result.encode("utf-8", "replace")) > limit:
            return self._reject(claim, f"its result is larger than {limit} bytes")
        return claim, verdict

    def _reject(self, claim: Claim, message: str) -> Settlement:
        message = kept(message)
        self._listen(ResultRejected(claim, message))
        return claim, Verdict(
            Move.FAIL,
            Counters(attempts=1, failures=1),
            failure=Failure.of(FailureClass.INVALID, message),
            dead_reason=DeadReason.NON_RETRYABLE,
        )


def _why(error: Exception) -> str:
    """Why a value cannot be stored, without the value: what else the database says quotes it."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return primary or str(error)


def _but(group: Sequence[Settlement], accepted: Iterable[Settlement]) -> list[Settlement]:
    heard = {(claim.id, claim.fence) for claim, _ in accepted}
    return [one for one in group if (one[0].id, one[0].fence) not in heard]


def _claim_arrays(claims: Iterable[Claim]) -> dict[str, str]:
    return _arrays((claim.id, claim.fence) for claim in claims)


def _arrays(held: Iterable[tuple[str, int]]) -> dict[str, str]:
    pairs = [(id_, str(fence)) for id_, fence in held]
    return {
        "ids": array_literal(id_ for id_, _ in pairs),
        "fences": array_literal(fence for _, fence in pairs),
    }


def array_literal(words: Iterable[str]) -> str:
    """An array of plain words as PostgreSQL writes it: cheaper than adapting each element."""
    return "{" + ",".join(words) + "}"


def _record(claim: Claim, verdict: Verdict) -> Mapping[str, object]:
    failure = verdict.failure
    return {
        "id": claim.id,
        "fence": claim.fence,
        "move": verdict.move,
        "after_seconds": verdict.after_seconds,
        "reason": verdict.reason,
        "progress": verdict.progress,
        "attempts": verdict.spent.attempts,
        "failures": verdict.spent.failures,
        "crashes": verdict.spent.crashes,
        "polls": verdict.spent.polls,
        "rate_limits": verdict.spent.rate_limits,
        "isolate": verdict.isolate,
        "failure_class": failure and failure.failure_class,
        "error_code": failure and failure.code,
        "error_message": failure and failure.message,
        "error_stack": failure and failure.stack,
        "fingerprint": failure and failure.fingerprint(claim.kind),
        "dead_reason": verdict.dead_reason,
    }
