"""Runs each request in one transaction: the change, its audit entry, and the stored idempotent answer."""

import hashlib
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from holdfast.http.auth import address_of
from holdfast.http.origin import SAFE
from holdfast.http.permissions import WORKERS_TOO, least
from holdfast.http.problems import Refused
from holdfast.http.service import HttpCaller, Service
from holdfast.ops.tokens import Role
from holdfast.store.idempotency import KeptAnswer, KeptAnswers

KEY_HEADER = "Idempotency-Key"
KEY_CHARACTERS = 200


class TransactionRoute(APIRoute):
    """A route whose handler is given a connection in a transaction, and who asks."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler with all of that around it."""
        inner = super().get_route_handler()
        path = self.path

        async def handle(request: Request) -> Response:
            service: Service = request.app.state.service
            writes = request.method not in SAFE
            role = least(request.method, path)
            assert role is not None, "open routes are no routes of this class"
            async with (
                service.admit(request, role, workers_too=(request.method, path) in WORKERS_TOO) as caller,
                service.pool.bounded(
                    caller.conn, writes=writes, token=caller.bearer.token, address=address_of(request)
                ),
            ):
                request.state.caller = caller
                # A worker's calls are safe to repeat by themselves.
                keyed = writes and role is not Role.WORKER
                key = request.headers.get(KEY_HEADER) if keyed else None
                if key is None:
                    return await inner(request)
                return await _once(caller, request, key, inner)

        return handle


async def _once(
    caller: HttpCaller, request: Request, key: str, inner: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Response:
    """Do it unless it was done; whoever asks with the same key is told what the first was told."""
    if not 0 < len(key) <= KEY_CHARACTERS:
        raise Refused(400, f"{KEY_HEADER} must have between 1 and {KEY_CHARACTERS} characters")
    whole = b"\0".join(
        [request.method.encode(), request.url.path.encode(), request.url.query.encode(), await request.body()]
    )
    # By the id of the token: two tokens may have one name.
    token = caller.bearer.token
    hashed, answers = hashlib.sha256(whole).digest(), KeptAnswers(caller.settings)
    before = await answers.before(caller.conn, token, key, hashed)
    if before is not None:
        if before.asked != hashed:
            raise Refused(422, f"this {KEY_HEADER} was used for another request: take a new one")
        return Response(before.body, before.status, {"Idempotency-Replayed": "true"}, before.media_type)
    response = await inner(request)
    kept = bytes(response.body)
    if caller.shown_once:
        kept = json.dumps(json.loads(kept) | dict.fromkeys(caller.shown_once)).encode()
    answer = KeptAnswer(hashed, response.status_code, response.headers.get("content-type"), kept)
    await answers.keep(caller.conn, token, key, answer)
    return response


def _caller(request: Request) -> HttpCaller:
    found: HttpCaller = request.state.caller
    return found


CurrentCaller = Annotated[HttpCaller, Depends(_caller)]
