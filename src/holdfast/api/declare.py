"""Validates the options of a task declaration before anything is enqueued."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypedDict

from holdfast.api.codec import Codec, Upgrade, encode_result, payload_type
from holdfast.api.kinds import bucket_of_payload, positive
from holdfast.core.backoff import Backoff
from holdfast.core.errors import BadHandler
from holdfast.core.handler import Bulk, Gather, Guard, Handler, Isolation, Scheduled, Task
from holdfast.core.limit import Limit
from holdfast.core.outcome import Duration, as_seconds
from holdfast.core.polling import Polling
from holdfast.core.schedule import Cron
from holdfast.core.task import QUEUE_DEFAULT

BULK_SIZE_MAX = 10_000
LINGER_SECONDS_MAX = 60.0


class KindOptions(TypedDict, total=False):
    """What `@app.task` and `@app.bulk_task` may be told of a kind.

    `upgrades[n]` turns a payload of version n into one of n + 1, for tasks that were enqueued before a
    deploy. `limit` holds for all tasks of the kind, on all workers together; `per=("episode", Limit(…))`
    for those with the same value of that field of the payload, which are served in turn with the others.
    After a failed task its lane goes on, or with `lane_on_failure="block"` waits for an operator.
    `polling` says when a task that snoozes and snoozes is given up. `schedule` makes tasks by itself:
    `Cron("0 3 * * *", zone="Europe/Paris")`, or several of them. The values of `secrets`, fields of
    payload and result, are kept out of failures, logs, the audit and what people see of a task. `guard` is
    asked before dead letters are redriven: given some, it answers a `Guarded` for each, with a veto or with
    what it would cost.
    """

    queue: str
    timeout: Duration
    max_attempts: int
    backoff: Backoff
    permanent: tuple[type[Exception], ...]
    rate_limited: tuple[type[Exception], ...]
    limit: Limit
    per: tuple[str, Limit]
    lane_on_failure: Literal["pass", "block"]
    polling: Polling
    schedule: Cron | Sequence[Cron]
    version: int
    upgrades: Mapping[int, Upgrade]
    secrets: Sequence[str]
    guard: Guard


def check(kind: str, options: KindOptions, isolation: str) -> None:
    """Say what is wrong with an option, if anything is."""
    unknown = sorted(set(options) - set(KindOptions.__annotations__))
    if unknown:
        known = ", ".join(KindOptions.__annotations__)
        raise BadHandler(f"{kind} has no option {', '.join(unknown)}: there are {known}")
    if (attempts := options.get("max_attempts")) is not None and attempts < 1:
        raise BadHandler(f"max_attempts of {kind} is {attempts}: a task has at least one attempt")
    if not isinstance(backoff := options.get("backoff", Backoff()), Backoff):
        raise BadHandler(f"backoff of {kind} is {backoff!r}: write Backoff(base_seconds=…)")
    if isolation not in set(Isolation):
        raise BadHandler(f"isolation of {kind} is {isolation!r}: it is 'thread' or 'process'")
    if (limit := options.get("limit")) is not None and not isinstance(limit, Limit):
        raise BadHandler(f"limit of {kind} is {limit!r}: write Limit(running=…)")
    if not isinstance(polling := options.get("polling", Polling()), Polling):
        raise BadHandler(f"polling of {kind} is {polling!r}: write Polling(answers=…, total=…)")
    crons = options.get("schedule", ())
    if not all(isinstance(cron, Cron) for cron in ([crons] if isinstance(crons, Cron) else crons)):
        raise BadHandler(f'schedule of {kind} is {crons!r}: write Cron("0 3 * * *")')
    if (per := options.get("per")) is not None and not isinstance(per[-1], Limit):
        raise BadHandler(f'per of {kind} is {per!r}: write per=("field", Limit(running=…))')
    if (lane := options.get("lane_on_failure", "pass")) not in ("pass", "block"):
        raise BadHandler(f"lane_on_failure of {kind} is {lane!r}: it is 'pass' or 'block'")
    _check_operating(kind, options)


def _check_operating(kind: str, options: KindOptions) -> None:
    if isinstance(secrets := options.get("secrets", ()), str) or not all(isinstance(x, str) for x in secrets):
        raise BadHandler(f'secrets of {kind} is {secrets!r}: write secrets=("field", …)')
    if (per := options.get("per")) is not None and per[0] in secrets:
        raise BadHandler(
            f"per of {kind} is {per[0]}, which is not to be shown: names of limits would show it"
        )
    if (guard := options.get("guard")) is not None and not inspect.iscoroutinefunction(guard):
        raise BadHandler(f"guard of {kind} is {guard!r}: write an async function that takes dead letters")


def gather(kind: str, size: int, linger: Duration) -> Gather:
    """How a bulk kind is called."""
    if not 1 <= size <= BULK_SIZE_MAX:
        raise BadHandler(f"size of {kind} is {size}: a call has 1 to {BULK_SIZE_MAX} tasks")
    if not 0 <= as_seconds(linger) <= LINGER_SECONDS_MAX:
        raise BadHandler(
            f"linger of {kind} is {as_seconds(linger):g} s: it is from 0 to {LINGER_SECONDS_MAX:g} s"
        )
    return Gather(size, as_seconds(linger))


def declare(
    kind: str,
    function: Callable[..., object],
    options: KindOptions,
    *,
    isolation: str = Isolation.THREAD,
    bulk: Gather | None = None,
) -> tuple[Handler, Codec]:
    """The handler of a kind, and how its payloads are read."""
    version = options.get("version", 1)
    payload = payload_type(kind, function, Task if bulk is None else Bulk)
    codec = Codec(kind, payload, version, options.get("upgrades", {}))
    timeout = options.get("timeout")
    handler = Handler(
        kind=kind,
        call=function,
        awaits=inspect.iscoroutinefunction(function),
        queue=options.get("queue", QUEUE_DEFAULT),
        timeout_seconds=None if timeout is None else positive("timeout", timeout),
        max_attempts=options.get("max_attempts"),
        backoff=options.get("backoff", Backoff()),
        isolation=Isolation(isolation),
        permanent=options.get("permanent", ()),
        rate_limited=options.get("rate_limited", ()),
        decode=codec.decode,
        encode=encode_result,
        check=codec.check,
        payload_hash=codec.payload_hash,
        secrets=tuple(options.get("secrets", ())),
        guard=options.get("guard"),
        version=version,
        limit=options.get("limit"),
        per=options.get("per"),
        lane_blocks=options.get("lane_on_failure") == "block",
        polling=options.get("polling", Polling()),
        bulk=bulk,
        schedules=_schedules(kind, options, codec),
    )
    return handler, codec


def _schedules(kind: str, options: KindOptions, codec: Codec) -> tuple[Scheduled, ...]:
    given = options.get("schedule", ())
    crons = [given] if isinstance(given, Cron) else list(given)
    names = [cron.name or kind for cron in crons]
    if len(set(names)) < len(names):
        raise BadHandler(f"kind {kind} has several schedules: give each a name of its own")
    per = options.get("per")
    return tuple(
        Scheduled(
            cron,
            codec.encode(cron.payload),
            None if per is None else bucket_of_payload(kind, per[0], cron.payload),
        )
        for cron in crons
    )
