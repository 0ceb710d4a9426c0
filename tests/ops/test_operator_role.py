"""A person who runs commands needs holdfast_operator and no other role."""

from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from holdfast.core.audit import EntryFilter
from holdfast.core.limit import Limit, Scope
from holdfast.core.state import State
from holdfast.db.clock import read_clock
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import grants
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.tokens import Role, Tokens
from holdfast.store.audit import Author
from holdfast.store.limits import Limits
from holdfast.store.operate import Operator
from holdfast.webhooks.endpoints import Endpoints, NewEndpoint
from tests.ops.conftest import Shift


@pytest.fixture
async def operators(shift: Shift, direct_url: str) -> AsyncIterator[Conn]:
    """A login that is a member of holdfast_operator and of nothing else."""
    conn = shift.world.conn
    await conn.execute(grants("holdfast"))
    await conn.execute(
        "do $$ begin create role an_operator login in role holdfast_operator;"
        " exception when duplicate_object or unique_violation then null; end $$"
    )
    async with await connect(make_conninfo(direct_url, user="an_operator")) as opened:
        yield opened


async def test_an_operator_acts_on_tasks_queues_kinds_and_limits(shift: Shift, operators: Conn) -> None:
    world, operator = shift.world, Operator(shift.settings, by="ada")
    task = await world.enqueue()
    await operator.pause(operators, task, "later")
    await operator.resume(operators, task)
    assert await operator.cancel(operators, task, "not wanted") is State.CANCELLED
    assert await operator.redrive(operators, [task], "after all") == [task]
    await operator.pause_kind(operators, "mail.send", "the provider is down")
    await operator.pause_queue(operators, "default", "a deploy")
    limits = Limits(shift.settings, by="ada")
    await limits.set(operators, Scope.KIND, "mail.send", Limit(running=2))
    assert await limits.clear(operators, Scope.KIND, "mail.send")
    assert await limits.show(operators) == []


async def test_an_operator_deals_with_dead_letters_plans_and_the_audit(shift: Shift, operators: Conn) -> None:
    first, second, third = await shift.fail(3)
    assert (await shift.dead.retry(operators, [first], "fixed")).retried == [first]
    assert await shift.dead.forget(operators, [second], "noise") == [second]
    (letter,) = await shift.dead.page(operators, DeadFilter())
    assert letter.fingerprint is not None
    await shift.groups.resolve(operators, letter.fingerprint, "fixed")
    plan = await shift.plans.freeze(operators, DeadFilter(ids=[third]), "the cause is fixed")
    await shift.plans.start(operators, plan.id)
    await shift.plans.abort(operators, plan.id, "thought better of it")
    await shift.writer.seal(operators)
    before, only = await read_clock(operators) + timedelta(days=1), EntryFilter(action="TASK_RETRY")
    assert await shift.writer.prune(operators, Author("ada", "tidy"), before, only) == 1
    assert (await shift.audit.prove(operators, shift.writer)).wrong == []


async def test_an_operator_sets_endpoints_and_reads_no_keys(shift: Shift, operators: Conn) -> None:
    endpoints = Endpoints(shift.settings, by="ada")
    made = await endpoints.create(operators, NewEndpoint("https://shop.example/hooks"))
    await endpoints.disable(operators, made.endpoint.id, "broken")
    await endpoints.enable(operators, made.endpoint.id, "mended")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await endpoints.target(operators, made.endpoint.id)


async def test_an_operator_makes_and_reads_no_tokens(shift: Shift, operators: Conn) -> None:
    tokens = Tokens(shift.settings, by="ada")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await tokens.create(operators, "mine", Role.ADMIN, None)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await tokens.list(operators)
