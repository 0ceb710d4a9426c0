"""Workers that speak HTTP: each call is one transaction.

They have what a worker of ours has: a lease, fences, limits, the same rules for every outcome. Nothing of it
is in memory here, so that any process may take the next call, and one that dies takes nothing along.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.core.bounds import RESERVED_KINDS
from holdfast.core.decide import Policy, Verdict
from holdfast.core.errors import JsonUnreadable, Misused
from holdfast.core.failure import ErrorCode, Failure, FailureClass
from holdfast.core.handler import Handlers
from holdfast.core.outcome import Expired, Failed, Outcome, Release, Released
from holdfast.core.state import Move
from holdfast.core.stored_json import CHARACTERS_MAX, check_json
from holdfast.core.task import RESERVED_QUEUE, Claim
from holdfast.db.connect import Conn
from holdfast.store.claim import ClaimRequest, all_ranges
from holdfast.store.http_workers import GENERATION, HttpWorkerRows, Lease
from holdfast.store.kinds import Declarations
from holdfast.store.permits import BlockedRequest, whole_line
from holdfast.store.settle import Settlement
from holdfast.store.store import Store
from holdfast.worker.policies import Policies

# A claim as a worker knows it: the task and the fence.
Held: TypeAlias = tuple[str, int]
# What workers over HTTP declare of all kinds and of each.
OUTSIDE_KINDS_MAX = 1_000
OUTSIDE_FIELDS_MAX = 200
_TRIED = (Move.RETRY, Move.FAIL, Move.SNOOZE)


@dataclass(frozen=True, slots=True)
class Beat:
    """An answer to a heartbeat: until when the lease holds, and what is to stop."""

    lease: Lease
    cancels: Sequence[tuple[str, int, str]]


class HttpWorkers:
    """What can be done in the name of a token's workers."""

    def __init__(self, store: Store, handlers: Handlers, token: str) -> None:
        self._store = store
        self._rows = HttpWorkerRows(store)
        self._declarations = Declarations(store.settings)
        self._handlers = handlers
        self._policies = Policies(handlers)
        self._token = token
        # PostgreSQL writes blanks that were not counted when the task was enqueued.
        self._payload_characters_max = max(2 * store.settings.payload_bytes_max, CHARACTERS_MAX)

    async def enter(  # noqa: PLR0913 (what a worker says of itself)
        self,
        conn: Conn,
        name: str,
        queues: Sequence[str],
        kinds: Sequence[str],
        lease_seconds: float,
        *,
        secrets: Mapping[str, Sequence[str]] | None = None,
        own_kinds: Collection[str] = (),
    ) -> Lease:
        """A new worker, which serves these queues, knows these kinds, and may say what is secret in them.

        `own_kinds` are those that its token is limited to: of these alone it may have fields shown.
        """
        if RESERVED_QUEUE in queues:
            raise Misused(f"the queue {RESERVED_QUEUE} is for Holdfast's own tasks")
        for kind in kinds:
            if kind.startswith(RESERVED_KINDS):
                raise Misused(f"tasks of kind {kind} are run by Holdfast's own workers")
        if unknown := sorted((secrets or {}).keys() - set(kinds)):
            raise Misused(f"secrets names {', '.join(unknown)}, which this worker does not serve")
        if secrets:
            await self._declare(conn, queues[0], secrets, own_kinds)
        return await self._rows.enter(conn, self._token, name, queues, kinds, lease_seconds)

    async def _declare(
        self, conn: Conn, queue: str, secrets: Mapping[str, Sequence[str]], own_kinds: Collection[str]
    ) -> None:
        """Add to what is declared; kinds that are new and not of the token are shown with keys only."""
        declared = await self._declarations.secrets_of(conn, secrets)
        known = await self._declarations.secrets_of(conn, secrets, claimed=True)
        new = secrets.keys() - known.keys()
        if new and await self._declarations.count_outside(conn) + len(new) > OUTSIDE_KINDS_MAX:
            raise Misused(f"HTTP workers declare at most {OUTSIDE_KINDS_MAX} kinds")
        for kind, fields in secrets.items():
            if len(known.get(kind, frozenset()) | set(fields)) > OUTSIDE_FIELDS_MAX:
                raise Misused(f"{kind} would have more than {OUTSIDE_FIELDS_MAX} secret fields")
        hidden = secrets.keys() - declared.keys() - set(own_kinds)
        await self._declarations.declare_secrets(conn, queue, secrets, hidden)

    async def beat(self, conn: Conn, worker: str) -> Beat:
        """Prolong its lease, and say what it was asked to stop."""
        lease = await self._rows.renew(conn, self._token, worker)
        return Beat(lease, await self._store.workers.cancel_requests(conn, worker))

    async def claim(
        self, conn: Conn, worker: str, limit: int, holding: Collection[Held]
    ) -> tuple[Lease, list[Claim]]:
        """Up to so many tasks, which start now; what it holds and did not name goes back unspent.

        A task whose payload no worker can be expected to read fails here, and the others are handed out.
        """
        lease = await self._rows.renew(conn, self._token, worker)
        await self._release_but(conn, worker, holding)
        claims = await self._look(conn, lease, limit)
        able = [claim for claim in claims if not claim.expired]
        if expired := [(claim, self._policies.judge(claim, Expired())) for claim in claims if claim.expired]:
            await self._store.settler.settle(conn, expired)
        ready: list[Claim] = []
        unreadable: list[Settlement] = []
        for claim in able:
            try:
                check_json(claim.payload, characters_max=self._payload_characters_max)
                ready.append(claim)
            except JsonUnreadable as error:
                message = f"the payload of a {claim.kind} task cannot be read: {error}"
                failure = Failure.of(FailureClass.INVALID, message, code=ErrorCode.PAYLOAD_INVALID)
                unreadable.append((claim, self._policies.judge(claim, Failed(failure))))
        if unreadable:
            await self._store.settler.settle(conn, unreadable)
        await self._rows.keep_permits(conn, worker)
        return lease, ready

    async def report(self, conn: Conn, worker: str, held: Held, outcome: Outcome) -> Move | None:
        """End a claim under its fence; answers how it ended, now or before, or nothing if it is late."""
        await self._rows.lock(conn, self._token, worker)
        claim = await self._rows.holds(conn, worker, *held)
        if claim is None:
            return await self._ended_before(conn, worker, held, outcome)
        settled = await self._store.settler.settle(conn, [(claim, await self._verdict(conn, claim, outcome))])
        await self._rows.keep_permits(conn, worker, [claim])
        if not settled.accepted:
            # Somebody has deleted the task meanwhile.
            return None
        # A result that cannot be kept ends otherwise than was asked for.
        ((_, verdict),) = settled.accepted
        return verdict.move

    async def _verdict(self, conn: Conn, claim: Claim, outcome: Outcome) -> Verdict:
        """What an outcome means; what it says is kept without the secrets that are declared of the kind.

        Of a kind that nobody has declared every value of the payload may be a secret.
        """
        own = self._handlers.get(claim.kind)
        declared = (await self._declarations.secrets_of(conn, [claim.kind])).get(claim.kind)
        if declared is None and own is None:
            return self._policies.judge_without(claim, outcome, None)
        return self._policies.judge_without(
            claim, outcome, {*(declared or ()), *(own.secrets if own else ())}
        )

    async def _ended_before(self, conn: Conn, worker: str, held: Held, outcome: Outcome) -> Move | None:
        """The answer to a report may have been lost, and not the report."""
        told = await self._rows.told(conn, worker, *held)
        verdict = await self._verdict(conn, told, outcome)
        # Whether attempts were left then is not known now.
        moves = _TRIED if verdict.move in _TRIED else (verdict.move,)
        ended_as = await self._rows.ended_as(conn, worker, *held, moves)
        if ended_as is None and await self._rows.may_be_late(conn, worker, *held):
            await self._store.settler.refuse(conn, [(told, verdict)])
        return ended_as

    async def leave(self, conn: Conn, worker: str) -> int:
        """Gone on purpose: what it held goes back unspent; how many that were."""
        await self._rows.lock(conn, self._token, worker)
        released = await self._release_but(conn, worker, (), Release.DRAINED)
        await self._store.workers.retire(conn, worker)
        return released

    async def _look(self, conn: Conn, lease: Lease, limit: int) -> list[Claim]:
        """From behind buckets and from ready, neither before the other."""
        worker, line = lease.worker, whole_line(lease.queues, lease.kinds)
        request = BlockedRequest(line, lease.queues, lease.kinds, generation=GENERATION)

        async def waiting(room: int) -> list[Claim]:
            found = await self._store.permits.claim_blocked(conn, worker, room, request)
            return list(found.claims)

        claims = await waiting((limit + 1) // 2)
        ranges = all_ranges(lease.queues)
        if (room := limit - len(claims)) > 0:
            asked = ClaimRequest(ranges, lease.kinds, at_once=room, generation=GENERATION)
            found = await self._store.claims.claim(conn, worker, room, asked)
            claims += found.claims
            if found.blocked >= room:
                await self._store.claims.block_heads(conn, ranges, lease.kinds)
        if (room := limit - len(claims)) > 0:
            claims += await waiting(room)
        return claims

    async def _release_but(
        self,
        conn: Conn,
        worker: str,
        holding: Collection[Held],
        why: Release = Release.UNKNOWN_CLAIM,
    ) -> int:
        known = set(holding)

        def outcome_of(claim: Claim, _: bool) -> Outcome | None:  # noqa: FBT001 (a row's column)
            return None if (claim.id, claim.fence) in known else Released(why)

        return len(
            (await self._store.workers.take_back(conn, worker, outcome_of, lambda _: Policy())).accepted
        )
