"""A viewer may ask for previews: guards are asked about some dead letters, and it says so."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Candidate, Guarded, Holdfast, Task
from holdfast.ops import plan_guards as guards
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.plan_guards import PlanGuards
from tests.ops.conftest import Shift


@pytest.mark.requirement("B9")
@pytest.mark.catches("previews-ask-about-all")
async def test_a_preview_asks_guards_about_so_many(shift: Shift, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Holdfast()
    asked: list[Candidate] = []

    async def guard(candidates: Sequence[Candidate]) -> list[Guarded]:
        asked.extend(candidates)
        return [Guarded() for _ in candidates]

    @app.task("render", guard=guard)
    async def render(task: Task[dict[str, Any]]) -> None:
        """Nothing."""

    await shift.fail(30, kind="render")
    of_app, conn = PlanGuards(shift.settings, app.handlers), shift.world.conn
    assert (await of_app.ask_some(conn, DeadFilter())).are_all
    assert len(asked) == 30
    for name, value in (("SOME", 25), ("SOME_CHARACTERS", 10)):
        asked.clear()
        monkeypatch.setattr(guards, name, value)
        assert not (await of_app.ask_some(conn, DeadFilter())).are_all
        assert len(asked) <= 25
