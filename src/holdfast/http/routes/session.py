"""Browser sessions: created with a token, kept in a strict cookie."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from holdfast.http.auth import address_of
from holdfast.http.identity import COOKIE
from holdfast.http.origin import refuse_strangers
from holdfast.http.problems import Refused
from holdfast.http.schemas import Shape
from holdfast.http.service import Service
from holdfast.ops.credentials import of_cookie

router = APIRouter(tags=["session"])


class BeginShape(Shape):
    """A token, once."""

    token: Annotated[str, Field(max_length=200)]


class BegunShape(Shape):
    """Who you are now, and the word that must come with every act, as X-CSRF-Token."""

    name: str
    role: str
    csrf_token: str
    expires_at: datetime


@router.post("/api/session", response_model=BegunShape, status_code=201)
async def begin(request: Request, response: Response, caller: BeginShape) -> object:
    """Begin a session with a token; the cookie holds for this site alone."""
    refuse_strangers(request)
    service: Service = request.app.state.service
    holder = await service.auth.holder(request, service.auth.token_of_session(request, caller.token))
    service.auth.limit_sessions(holder)
    async with service.auth.within_limits(holder), service.pool.connection() as conn:
        bearer = await service.auth.by_token(conn, request, caller.token)
        address = address_of(request)
        async with service.pool.bounded(conn, writes=True, token=bearer.token, address=address):
            begun = await service.auth.sessions.begin(conn, bearer)
    response.set_cookie(COOKIE, begun.secret, httponly=True, secure=True, samesite="strict", path="/")
    return {
        "name": bearer.name,
        "role": bearer.role,
        "csrf_token": begun.csrf,
        "expires_at": begun.expires_at,
    }


@router.delete("/api/session", status_code=204)
async def end(request: Request) -> Response:
    """Leave."""
    refuse_strangers(request)
    secret = request.cookies.get(COOKIE)
    if secret is None:
        raise Refused(401, "there is no session to end")
    service: Service = request.app.state.service
    credential = of_cookie(secret)
    bearer = None if credential is None else await service.auth.lookups.holder(credential)
    if credential is not None and bearer is not None:
        async with (
            service.auth.within_limits(bearer),
            service.pool.connection() as conn,
            service.pool.bounded(conn, writes=True, token=bearer.token, address=address_of(request)),
        ):
            await service.auth.sessions.end(conn, secret, bearer)
        service.auth.lookups.forget(credential)
    gone = Response(status_code=204)
    gone.delete_cookie(COOKIE, httponly=True, secure=True, samesite="strict", path="/")
    return gone
