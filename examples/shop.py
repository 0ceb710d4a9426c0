"""A small shop: an order and its confirmation are one commit. The tutorial in docs/tutorial explains it.

holdfast worker examples.shop:app &
uvicorn examples.shop:api
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from holdfast import Backoff, Fail, Holdfast, Snooze, Task, seconds
from holdfast.core.errors import TaskNotFound

URL = os.environ.get("HOLDFAST_DATABASE_URL", "")
ORDERS = """
create table if not exists public.shop_orders (
    id bigint generated always as identity primary key,
    email text not null,
    cents integer not null,
    state text not null default 'new'
)
"""

app = Holdfast()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the shop's own table when the server starts, and let the app's connections go at its end."""
    async with await psycopg.AsyncConnection.connect(URL) as conn:
        await conn.execute(ORDERS)
    async with app:
        yield


api = FastAPI(lifespan=lifespan)


class Order(BaseModel):
    email: str
    cents: int


class Charge(BaseModel):
    order: int


@app.task("order.charge", max_attempts=5, backoff=Backoff(base_seconds=1), timeout=seconds(30))
async def charge(task: Task[Charge]) -> Snooze | Fail | None:
    """Ask the provider until it has an answer, then mark the order and the task as done in one commit."""
    answer = await provider(task.payload.order, token=task.key, polls=task.polls)
    if answer == "pending":
        return Snooze(seconds(0.1), progress=50.0)
    if answer == "declined":
        return Fail("CARD_DECLINED", "the bank said no")
    async with task.finish({"charged": task.payload.order}) as tx:
        await tx.execute("update public.shop_orders set state = 'paid' where id = %s", [task.payload.order])
    return None


async def provider(order: int, *, token: str, polls: int) -> str:
    """Stands for a payment provider: it has an answer at the second time of asking."""
    assert token, f"order {order} is charged once, however often it is asked"
    if not polls:
        return "pending"
    await asyncio.sleep(2)
    return "paid"


@api.post("/orders", status_code=201)
async def create_order(order: Order) -> dict[str, object]:
    """Take an order; if this fails anywhere, neither the row nor the task is there."""
    async with await psycopg.AsyncConnection.connect(URL) as conn:
        row = await (
            await conn.execute(
                "insert into public.shop_orders (email, cents) values (%s, %s) returning id",
                [order.email, order.cents],
            )
        ).fetchone()
        assert row is not None
        handle = await charge.enqueue(Charge(order=row[0]), conn=conn, key=f"order:{row[0]}")
    return {"order": row[0], "task": handle.id}


@api.get("/tasks/{task_id}")
async def show_task(task_id: str) -> dict[str, object]:
    """Where the charge stands."""
    try:
        task = await app.handle(task_id).status()
    except TaskNotFound as error:
        raise HTTPException(404, str(error)) from error
    result = None if task.result is None else json.loads(task.result)
    return {"state": task.state, "result": result, "error": task.error and task.error.code}
