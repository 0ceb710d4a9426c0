"""The API and a worker started for real, as processes: what T14 describes, from the outside."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.tree import Tree, until_true
from tests.world import World


@pytest.mark.requirement("T9", "T10", "T11", "T12")
@pytest.mark.catches("batch-waits-for-a-worker")
async def test_t14_the_life_of_tasks_from_the_outside(  # noqa: PLR0915 (one story)
    served: httpx.AsyncClient, trees: Callable[..., Tree], world: World
) -> None:
    await trees().start("--unroutable", 0).ready()

    async def post(path: str, **body: object) -> Any:
        answer = await served.post(path, json=body)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    async def show(task: str) -> Any:
        return (await served.get(f"/api/tasks/{task}")).json()

    async def enqueue(kind: str, **more: object) -> str:
        made = await post("/api/tasks", kind=kind, **more)
        return str(made["id"])

    async def ended(task: str, state: str) -> Any:
        async def there() -> bool:
            return bool((await show(task))["state"] == state)

        await until_true(there, 60, f"{task} to be {state}")
        return await show(task)

    # A health check completes.
    await ended(await enqueue("noop"), "completed")
    # A kind that nobody knows fails at once, is a dead letter, and can be retried.
    unknown = await enqueue("nobody.knows", subject="episode-7")
    assert (await ended(unknown, "failed"))["deadReason"] == "non_retryable"
    listed = (await served.get("/api/tasks/dead-letters", params={"subject": "episode-7"})).json()
    assert [one["id"] for one in listed["items"]] == [unknown]
    assert (await post(f"/api/tasks/{unknown}/retry", reason="after a deploy"))["retried"] == [unknown]
    await ended(unknown, "failed")
    # One that always fails is retried, then dead.
    hopeless = [await enqueue("polite", maxAttempts=2) for _ in range(3)]
    for task in hopeless:
        found = await ended(task, "failed")
        assert (found["deadReason"], found["attemptCount"]) == ("max_attempts_exceeded", 2)
    # Pages of a preview do not overlap.
    pages = [
        (await served.get("/api/tasks/dead-letters/preview", params={"page": n, "pageSize": 2})).json()
        for n in (1, 2)
    ]
    seen = [one["id"] for page in pages for one in page["items"]]
    assert sorted(seen) == sorted([unknown, *hopeless])
    # A selective redrive leaves exactly its entries, and a prune removes them.
    done = await post("/api/tasks/dead-letters/retry", taskIds=hopeless[:2], reason="once more")
    assert done["retried"] == 2
    entries = (await served.get("/api/tasks/audit-logs", params={"batchId": done["batchId"]})).json()
    items = [one for one in entries["items"] if one["action"] == "TASK_RETRY_BATCH_ITEM"]
    assert sorted(one["taskId"] for one in items) == sorted(hopeless[:2])
    pruned = await post(
        "/api/tasks/audit-logs/prune", batchId=done["batchId"], olderThanDays=0, reason="test"
    )
    assert pruned["pruned"] == entries["total"]
    entries = (await served.get("/api/tasks/audit-logs", params={"batchId": done["batchId"]})).json()
    assert entries["total"] == 0
    assert await world.rows("plans") == 1
