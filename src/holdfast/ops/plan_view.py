"""A plan as it is requested, previewed and shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from holdfast.core.audit import Identity
from holdfast.ops.dead_letters import DeadLetter, Sort
from holdfast.ops.tokens import WITHOUT_AUTHENTICATION

ITEMS_MAX = 10_000_000
EXPIRES_SECONDS = 24 * 3600.0
STOP_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class How:
    """How a plan goes about it: first so many, then so many a second, until so many of them fail."""

    canary: int = 0
    rate: float | None = None
    stop_ratio: float = STOP_RATIO
    expires_seconds: float = EXPIRES_SECONDS
    limit: int = ITEMS_MAX


@dataclass(frozen=True, slots=True)
class Preview:
    """What a plan would do, without doing it."""

    tasks: int
    sorts: Sequence[Sort]
    sample: Sequence[DeadLetter]
    excluded: Mapping[str, int]
    money_effect: Decimal | None
    needs_approval: bool
    unguarded: Sequence[str]
    # Otherwise there are at least so many, and the sorts are those of that many.
    exact: bool = True


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan as people see it."""

    id: str
    action: str
    state: str
    created_at: datetime
    created_by: str
    reason: str
    filter: Mapping[str, object]
    items: int
    set_hash: str
    excluded: Mapping[str, int]
    money_effect: Decimal | None
    expires_at: datetime
    canary: int
    rate: float | None
    stop_ratio: float
    needs_approval: bool
    approved_by: str | None
    approved_at: datetime | None
    started_by: str | None
    started_at: datetime | None
    next_place: int
    sent: int
    skipped: int
    succeeded: int
    failed_same: int
    failed_anew: int
    cancelled: int
    gone: int
    ended_at: datetime | None
    ended_why: str | None
    followed_at: datetime | None
    expired: bool
    # Who is proven to have made and approved it: a token of the HTTP API, or else a database login.
    created_login: str | None
    created_token: str | None
    approved_login: str | None
    approved_token: str | None

    @property
    def shown_state(self) -> str:
        """The state as people see it."""
        if self.state == "frozen" and self.expired:
            return "expired"
        if self.state == "frozen" and self.needs_approval and self.approved_by is None:
            return "awaiting approval"
        if self.state == "running" and self.next_place <= self.canary:
            return "canary"
        return self.state

    @property
    def ended(self) -> int:
        """How many of its items have ended their next life."""
        return self.succeeded + self.failed_same + self.failed_anew + self.cancelled + self.gone

    def why_not_approved(self, by: str, me: Identity) -> str:
        """What stands in the way of an approval by this person."""
        if not self.needs_approval:
            return "it needs no approval: start it"
        if self.approved_by is not None:
            return f"{self.approved_by} has approved it already"
        if not self.expired and self.state == "frozen":
            if (
                me.token is None
                and me.login == self.created_login
                and by == self.created_by == WITHOUT_AUTHENTICATION
            ):
                return "without authentication nobody can be told apart: use tokens or --proxy to approve"
            if self.created_by == by:
                return f"{by} made it, and nobody approves their own"
            if me.token is not None and me.token == self.created_token:
                return f"it was made with the same token, {me.token}, and nobody approves their own"
            if me.token is None and self.created_token is not None:
                return "it was made with a token of the HTTP API: approve it there, with a token of your own"
            if me.token is None and self.created_login in (me.login, None):
                return (
                    f"it was made through the database login {me.login} as well, so a second person is not "
                    "proven: approve it through the HTTP API with a token of your own"
                )
        return "only a frozen plan can be approved, before it expires: make it anew"

    def why_not_started(self) -> str:
        """What stands in the way of its start."""
        if self.started_by is not None:
            return f"{self.started_by} started it at {self.started_at:%Y-%m-%d %H:%M:%S} UTC"
        if self.expired:
            return "its time is over: make it anew, and look at what it finds now"
        if self.needs_approval and self.approved_by is None:
            return (
                f"it has {self.items} items and needs the approval of a second person: somebody other than "
                f"{self.created_by}, with another token or database login"
            )
        return "only a frozen plan can be started"
