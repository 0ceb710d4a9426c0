"""An app whose executor writes down through which of our functions one task goes.

From the answer of its claim to the answer of its settle, a function counts when it is called with the task
in hand: with its claim, its run, its id, or a group that it is in.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import holdfast
from holdfast import Holdfast, Task
from holdfast.core.task import Claim
from holdfast.db.connect import Conn
from holdfast.store.claim import Claimed, ClaimRequest, Claims
from holdfast.store.settle import Settled, Settlement, Settler
from holdfast.worker.executor.run import Run

HOME = str(Path(holdfast.__file__).parent)
WALK_FILE = "HOLDFAST_TEST_WALK"

app = Holdfast()
_walk: list[str] = []
_ids: set[str] = set()
_claim, _settle = Claims.claim, Settler.settle


@app.task("noop")
async def noop(task: Task[Any]) -> None:
    """Nothing."""


def _holds(value: object, depth: int = 2) -> bool:
    if isinstance(value, (Claim, Task, Run)):
        return True
    if isinstance(value, (list, tuple, set)) and depth:
        return any(_holds(one, depth - 1) for one in value)
    return isinstance(value, str) and value in _ids


def _note(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    # Comprehensions and lambdas are part of the function that they stand in.
    if event != "call" or not code.co_filename.startswith(HOME) or "<" in code.co_name:
        return
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    name = f"{code.co_filename.removeprefix(HOME)}:{code.co_qualname}"
    if name not in _walk and any(_holds(frame.f_locals.get(argument)) for argument in arguments):
        _walk.append(name)


async def _claim_and_watch(
    self: Claims, conn: Conn, worker: str, limit: int, request: ClaimRequest, timeout: float
) -> Claimed:
    claimed = await _claim(self, conn, worker, limit, request, timeout)
    if claimed.claims:
        _ids.update(claim.id for claim in claimed.claims)
        sys.setprofile(_note)
    return claimed


async def _settle_and_tell(self: Settler, conn: Conn, settlements: Sequence[Settlement]) -> Settled:
    settled = await _settle(self, conn, settlements)
    sys.setprofile(None)
    _tell()
    return settled


def _tell() -> None:
    Path(os.environ[WALK_FILE]).write_text(json.dumps(_walk))


if WALK_FILE in os.environ:
    Claims.claim = _claim_and_watch  # type: ignore[method-assign,assignment]
    Settler.settle = _settle_and_tell  # type: ignore[method-assign]
