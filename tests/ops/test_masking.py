"""What is struck out of payloads and results: by what was declared, and all values where nothing was."""

import json
from datetime import UTC, datetime

import pytest

from holdfast import Cron, Holdfast, Task
from holdfast.config import Settings
from holdfast.core.handler import Handler
from holdfast.ops.groups import Trait
from holdfast.ops.masking import Mask, keys_only, mask_for
from holdfast.store.kinds import Declarations
from holdfast.store.schedules import Schedules
from tests.ops.conftest import Shift
from tests.world import World

STRUCK = "[redacted]"


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ('{"card": "1", "more": {"pin": 1}}', {"card": STRUCK, "more": STRUCK}),
        ('{"none": null, "many": [1]}', {"none": STRUCK, "many": STRUCK}),
        ("{}", {}),
        ('["4111"]', STRUCK),
        ('"4111"', STRUCK),
        ("4111", STRUCK),
        ("[" * 100 + "]" * 100, "[unreadable: it is nested more than 64 deep]"),
        ('{"card": ' + "1" * 5_000 + "}", "[unreadable: it holds a number of more than 308 digits]"),
    ],
    ids=["object", "null", "empty", "list", "text", "number", "deep", "long"],
)  # fmt: skip
def test_of_a_kind_that_nobody_has_declared_only_keys_are_shown(document: str, shown: object) -> None:
    assert json.loads(keys_only(document)) == shown
    assert json.loads(Mask({}).shown("any", document)) == shown


async def test_what_the_table_and_the_app_say_counts_together(world: World) -> None:
    app = Holdfast(world.url)

    @app.task("pay", secrets=("pin",))
    async def pay(task: Task[dict[str, str]]) -> None:
        """Nothing."""

    settings = Settings(database_url=world.url)
    await Declarations(settings).declare(world.conn, [Handler("pay", print, awaits=False, secrets=("card",))])
    payload = '{"card": "1", "pin": "2", "to": "3"}'
    both = await mask_for(world.conn, settings, ["pay", "unknown"], app.handlers)
    assert json.loads(both.shown("pay", payload)) == {"card": STRUCK, "pin": STRUCK, "to": "3"}
    assert json.loads((await mask_for(world.conn, settings, ["pay"])).shown("pay", payload))["pin"] == "2"
    assert (both.knows("pay"), both.knows("unknown")) == (True, False)


async def test_what_tasks_share_is_told_without_secret_values(shift: Shift) -> None:
    conn = shift.world.conn
    for _ in range(5):
        await shift.world.enqueue("render", payload={"token": "t-1", "model": "v2"})
    await shift.fail_again()
    (group,) = await shift.groups.page(conn)
    mask = Mask({"render": ["token"]})
    assert await shift.groups.traits(conn, group, mask) == [Trait("model", "v2", 1.0, 0.0)]
    assert await shift.groups.traits(conn, group, Mask({})) == []


async def test_the_payload_of_a_schedule_is_masked(world: World) -> None:
    app = Holdfast(world.url)

    @app.task("pay", secrets=("card",), schedule=Cron("0 3 * * *", payload={"card": "1", "to": "3"}))
    async def pay(task: Task[dict[str, str]]) -> None:
        """Nothing."""

    schedules = Schedules(world.store.settings)
    await schedules.declare(world.conn, app.handlers.values())
    (view,) = await schedules.list(world.conn)
    assert json.loads(Mask({"pay": ["card"]}).schedule(view).payload) == {"card": STRUCK, "to": "3"}
    assert view.next_at > datetime.now(UTC)
