"""The delivery handler: sends one signed request and interprets the answer."""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from holdfast.config import Settings
from holdfast.core.events import Listener
from holdfast.core.failure import kept
from holdfast.core.handler import Task
from holdfast.core.outcome import Complete, Fail, Outcome, Retry, Snooze
from holdfast.db.connect import Conn
from holdfast.db.link import Link, LinkLost
from holdfast.webhooks.address import AddressRefused, Network, networks_of
from holdfast.webhooks.client import Post
from holdfast.webhooks.connection import KEPT_BYTES, Undelivered
from holdfast.webhooks.delivery_log import Attempt, LogWriter
from holdfast.webhooks.endpoints import Endpoints, Target
from holdfast.webhooks.payloads import Delivery
from holdfast.webhooks.publish import disabled_event
from holdfast.webhooks.retry import delay, until_asked_again
from holdfast.webhooks.signing import signed

# What is known of an endpoint is read again after so long.
FRESH_SECONDS = 1.0
KNOWN_MAX = 10_000
BY = "holdfast"
CODE = "holdfast:webhooks"

REFUSED = "WEBHOOK_ADDRESS_REFUSED"
GONE = "WEBHOOK_GONE"
DISABLED = "WEBHOOK_ENDPOINT_DISABLED"
REMOVED = "WEBHOOK_ENDPOINT_REMOVED"


class Deliver:
    """Delivers in one process; on each event loop with connections of its own."""

    def __init__(self, settings: Settings, listen: Listener) -> None:
        self._settings = settings
        self._listen = listen
        self._allowed = networks_of(settings.webhooks_allow)
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Desk] = WeakKeyDictionary()

    async def __call__(self, task: Task[Delivery]) -> Outcome:
        """One attempt."""
        loop = asyncio.get_running_loop()
        desk = self._places.get(loop)
        if desk is None:
            desk = self._places[loop] = _Desk(self._settings, self._allowed, self._listen)
        return await desk.deliver(task)

    async def close(self) -> None:
        """Let the connections of this event loop go."""
        desk = self._places.pop(asyncio.get_running_loop(), None)
        if desk is not None:
            await desk.close()


class _Desk:
    """What deliveries of one event loop share."""

    def __init__(self, settings: Settings, allowed: Sequence[Network], listen: Listener) -> None:
        self._settings = settings
        self._link = Link(settings.database_url, "holdfast webhooks", listen)
        # Beside the other, so that a look at an endpoint does not wait for a commit.
        self._looks = Link(settings.database_url, "holdfast webhooks looks", listen)
        self._endpoints = Endpoints(settings, listen, by=BY, code=CODE)
        self._log = LogWriter(settings, self._link, listen)
        self._post = Post(allowed)
        self._known: dict[str, tuple[float, Target | None]] = {}

    async def deliver(self, task: Task[Delivery]) -> Outcome:
        try:
            target, probe = await self._ready(task)
        except LinkLost:
            # Nothing was sent.
            return Snooze(random.uniform(FRESH_SECONDS, 5 * FRESH_SECONDS))
        if not isinstance(target, Target):
            return target
        attempt, retry_after = await self._attempted(task, target)
        await self._log.add(attempt)
        if attempt.delivered:
            return await self._delivered(task, target, attempt)
        return await self._failed(task, attempt, retry_after, probe=probe)

    async def _ready(self, task: Task[Delivery]) -> tuple[Target | Fail | Snooze, bool]:
        """The endpoint, and whether this goes to see if it is well again; or why nothing is sent now."""
        endpoint = task.payload.endpoint
        target = await self._target(endpoint)
        probe = False
        if target is not None and target.left_alone_until is not None and not target.left_alone_for():
            probe = await self._looks.use(lambda conn: self._endpoints.probe(conn, endpoint))
            if not probe:
                # Another one went, or it is well already.
                self._known.pop(endpoint, None)
                target = await self._target(endpoint)
        if target is None:
            return Fail(REMOVED, f"endpoint {endpoint} was removed"), False
        if target.disabled_because is not None:
            return Fail(DISABLED, f"endpoint {endpoint} is disabled: {target.disabled_because}"), False
        left = target.left_alone_for()
        if left and not probe:
            return Snooze(until_asked_again(left, task.polls)), False
        return target, probe

    async def close(self) -> None:
        self._post.close()
        await self._link.close()
        await self._looks.close()

    async def _target(self, endpoint: str) -> Target | None:
        at, target = self._known.get(endpoint, (0.0, None))
        if at + FRESH_SECONDS < time.monotonic():
            if len(self._known) > KNOWN_MAX:
                self._known.clear()
            target = await self._looks.use(lambda conn: self._endpoints.target(conn, endpoint))
            self._known[endpoint] = time.monotonic(), target
        return target

    async def _attempted(self, task: Task[Delivery], target: Target) -> tuple[Attempt, str | None]:
        body = task.payload.body.encode()
        now = target.now()
        signed_at, began = int(now.timestamp()), time.monotonic()
        headers = signed(target.keys, task.payload.event, signed_at, body)
        status = code = message = head = retry_after = None
        try:
            answer = await self._post(target.place, headers, body, self._settings.webhooks_deadline_seconds)
        except AddressRefused as error:
            code, message = REFUSED, str(error)
        except Undelivered as error:
            code, message = f"WEBHOOK_{error.code.upper()}", str(error)
        else:
            status, retry_after = answer.status, answer.retry_after
            # A receiver may repeat what it was sent, and its own secrets too.
            head = kept(answer.head, KEPT_BYTES, [task.payload.body])
            if not 200 <= status < 300:
                code, message = f"WEBHOOK_{status}", f"the receiver answered {status}"
        message = None if message is None else kept(message)
        attempt = Attempt(
            now,
            task.payload.endpoint,
            task.id,
            task.attempt,
            task.payload.event,
            task.payload.type,
            target.place.shown,
            signed_at,
            [key.id for key in target.keys],
            len(body),
            time.monotonic() - began,
            status,
            code,
            message,
            head,
        )
        return attempt, retry_after

    async def _delivered(self, task: Task[Delivery], target: Target, attempt: Attempt) -> Complete:
        if target.failing:
            endpoint = task.payload.endpoint
            await self._link.use(lambda conn: self._endpoints.recovered(conn, endpoint))
            self._known.pop(endpoint, None)
        return Complete(json.dumps({"status": attempt.status, "tookSeconds": round(attempt.took_seconds, 4)}))

    async def _failed(
        self, task: Task[Delivery], attempt: Attempt, retry_after: str | None, *, probe: bool
    ) -> Outcome:
        endpoint = task.payload.endpoint
        code, message = attempt.code or "", attempt.message or ""
        too_long = await self._link.use(lambda conn: self._endpoints.failed(conn, endpoint, probe=probe))
        self._known.pop(endpoint, None)
        if attempt.status == 410:
            await self._disable(endpoint, attempt, "it answered 410 Gone")
            return Fail(GONE, f"{attempt.url} is gone")
        if too_long:
            await self._disable(endpoint, attempt, "it has done nothing but fail for days")
        if code == REFUSED:
            return Fail(code, message)
        return Retry(message, delay(task.attempt, attempt.at, retry_after), code)

    async def _disable(self, endpoint: str, attempt: Attempt, why: str) -> None:
        async def work(conn: Conn) -> None:
            async with conn.transaction():
                if await self._endpoints.disable(conn, endpoint, why):
                    await disabled_event(self._settings, conn, endpoint, attempt.url, why)

        await self._link.use(work)
