"""One request is one transaction: what is done, its entry in the audit, and the answer kept for its key."""

import hashlib
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from holdfast.http.access import least
from holdfast.http.desk import Asked, Desk
from holdfast.http.problems import Refused
from holdfast.store.sql import load

KEY_HEADER = "Idempotency-Key"
KEY_CHARACTERS = 200


class Asking(APIRoute):
    """A route whose handler is given a connection in a transaction, and who asks."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler with all of that around it."""
        inner = super().get_route_handler()
        path = self.path

        async def handle(request: Request) -> Response:
            desk: Desk = request.app.state.desk
            writes = request.method not in {"GET", "HEAD"}
            role = least(request.method, path)
            assert role is not None, "open routes are no routes of this class"
            async with desk.connection() as conn:
                bearer = await desk.who(conn, request, role)
                asked = request.state.asked = Asked(conn, bearer, desk)
                async with desk.bounded(conn, writes=writes):
                    key = request.headers.get(KEY_HEADER) if writes else None
                    if key is None:
                        return await inner(request)
                    return await _once(asked, request, key, inner)

        return handle


async def _once(
    asked: Asked, request: Request, key: str, inner: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Response:
    """Do it unless it was done; whoever asks with the same key is told what the first was told."""
    if not 0 < len(key) <= KEY_CHARACTERS:
        raise Refused(400, f"{KEY_HEADER} must have between 1 and {KEY_CHARACTERS} characters")
    sql = load("access.sql", asked.settings.schema_name)
    whole = b"\0".join(
        [request.method.encode(), request.url.path.encode(), request.url.query.encode(), await request.body()]
    )
    mine = {"actor": asked.by, "key": key, "asked": hashlib.sha256(whole).digest()}
    if await (await asked.conn.execute(sql["ask"], mine)).fetchone() is None:
        row = await (await asked.conn.execute(sql["answered"], mine)).fetchone()
        assert row is not None, "whoever held the key has committed"
        before, status, media_type, body = row
        if bytes(before) != mine["asked"]:
            raise Refused(422, f"this {KEY_HEADER} was used for another request: take a new one")
        return Response(bytes(body), status, {"Idempotency-Replayed": "true"}, media_type)
    response = await inner(request)
    answer = {
        "status": response.status_code,
        "media_type": response.headers.get("content-type"),
        "body": bytes(response.body),
    }
    await asked.conn.execute(sql["answer"], mine | answer)
    return response


def _asked(request: Request) -> Asked:
    found: Asked = request.state.asked
    return found


AskedBy = Annotated[Asked, Depends(_asked)]
