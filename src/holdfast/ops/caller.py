"""Who acts on an installation, and what they can act on."""

from dataclasses import dataclass, field

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.db.connect import Conn
from holdfast.ops.dead_letters import DeadLetters
from holdfast.ops.groups import Groups
from holdfast.ops.plans import Plans
from holdfast.ops.tokens import Tokens
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.limits import Limits
from holdfast.store.operate import Operator
from holdfast.store.schedules import Schedules


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request or runs a command: whatever they do is done on this connection, in their name."""

    conn: Conn
    settings: Settings
    # The name that the audit records.
    by: str
    # The kinds of the app, where one was named.
    handlers: Handlers = field(default_factory=dict)
    listen: Listener = silent

    def author(self, reason: str = "") -> Author:
        """Who does it, and why, for an entry of the audit."""
        return Author(self.by, reason)

    @property
    def audit(self) -> AuditWriter:
        """Writes audit entries for actions that none of the classes below records."""
        return AuditWriter(self.settings, self.listen)

    @property
    def operator(self) -> Operator:
        """Acts on tasks, queues and kinds."""
        return Operator(self.settings, self.listen, by=self.by)

    @property
    def dead_letters(self) -> DeadLetters:
        """Acts on dead letters one by one."""
        return DeadLetters(self.settings, self.listen, by=self.by, handlers=self.handlers)

    @property
    def plans(self) -> Plans:
        """Acts on many dead letters."""
        return Plans(self.settings, self.listen, by=self.by, handlers=self.handlers)

    @property
    def groups(self) -> Groups:
        """Acts on groups of failures."""
        return Groups(self.settings, self.listen, by=self.by)

    @property
    def limits(self) -> Limits:
        """Acts on limits."""
        return Limits(self.settings, self.listen, by=self.by)

    @property
    def schedules(self) -> Schedules:
        """Acts on schedules."""
        return Schedules(self.settings, self.listen, by=self.by)

    @property
    def tokens(self) -> Tokens:
        """Acts on tokens of the HTTP API."""
        return Tokens(self.settings, by=self.by)
