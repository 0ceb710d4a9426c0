"""Maps errors to problem documents (RFC 9457)."""

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from holdfast.core.errors import (
    BadPayload,
    DatabaseAway,
    EndpointNotFound,
    GroupNotFound,
    HoldfastError,
    KeyConflict,
    Misused,
    MoveRefused,
    NotAllowed,
    OutOfScope,
    PayloadTooLarge,
    PlanNotFound,
    PlanRefused,
    PruneTooRecent,
    ScheduleNotFound,
    SchemaError,
    TaskContended,
    TaskNotFound,
    TaskStranded,
    TokenNameTaken,
    TokenNotFound,
    WorkerNotFound,
)
from holdfast.db.connect import login_of

MEDIA_TYPE = "application/problem+json"
# Of what is wrong in a request.
WRONG_SHOWN = 20
WRONG_CHARACTERS = 500
_STATUS: tuple[tuple[type[HoldfastError], int], ...] = (
    (TaskNotFound, 404),
    (PlanNotFound, 404),
    (GroupNotFound, 404),
    (ScheduleNotFound, 404),
    (TokenNotFound, 404),
    (EndpointNotFound, 404),
    (WorkerNotFound, 404),
    (OutOfScope, 403),
    (MoveRefused, 409),
    (PlanRefused, 409),
    (TaskContended, 409),
    (TaskStranded, 409),
    (KeyConflict, 409),
    (PruneTooRecent, 409),
    (TokenNameTaken, 409),
    (PayloadTooLarge, 413),
    (BadPayload, 422),
    (Misused, 422),
    (DatabaseAway, 503),
    (NotAllowed, 503),
    (SchemaError, 503),
)
TITLES = {
    400: "The request cannot be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Not this method",
    408: "Too slow",
    409: "Not in this state",
    413: "Too large",
    414: "Too long an address",
    422: "Not what this takes",
    429: "Too often",
    500: "A mistake of ours",
    503: "Not now",
}


class Problem(BaseModel):
    """What happened, and what to do about it."""

    title: str
    status: int
    detail: str
    # Where in the request, for each that is wrong.
    wrong: list[str] = []


class Refused(Exception):
    """The request itself is refused."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}


def problem(
    status: int, detail: str, *, wrong: list[str] | None = None, headers: dict[str, str] | None = None
) -> JSONResponse:
    """The answer that says so."""
    said = Problem(title=TITLES.get(status, "Refused"), status=status, detail=detail, wrong=wrong or [])
    return JSONResponse(
        said.model_dump(exclude_defaults=True), status, headers=headers, media_type=MEDIA_TYPE
    )


def answer_for(error: Exception) -> JSONResponse:
    """The problem that an exception stands for."""
    match error:
        case Refused():
            return problem(error.status, str(error), headers=error.headers)
        case HTTPException():
            return problem(error.status_code, str(error.detail), headers=dict(error.headers or {}))
        case RequestValidationError():
            found = error.errors()
            wrong = [
                f"{'.'.join(map(str, one['loc']))}: {one['msg']}"[:WRONG_CHARACTERS]
                for one in found[:WRONG_SHOWN]
            ]
            if len(found) > WRONG_SHOWN:
                wrong.append(f"and {len(found) - WRONG_SHOWN} more")
            return problem(422, "some of it is not as described", wrong=wrong)
        case psycopg.errors.QueryCanceled():
            return problem(503, "the database took too long: ask for less", headers={"Retry-After": "5"})
        case psycopg.errors.LockNotAvailable():
            return problem(
                503, "another session has locked a table or a row for too long", headers={"Retry-After": "5"}
            )
        case psycopg.OperationalError():
            return problem(503, "the database cannot be reached", headers={"Retry-After": "5"})
        case psycopg.errors.DataError() | psycopg.errors.UntranslatableCharacter():
            return problem(422, "the database cannot keep one of these values")
        case HoldfastError():
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), 422)
            return problem(status, str(error))
        case _:
            return problem(500, "it was written to the log of the server")


def missing_right(url: str, error: Exception) -> SchemaError:
    """The problem of an API whose login lacks a right: which login, and what to do."""
    reason = str(error).strip().splitlines()[0]
    return SchemaError(
        f"the login {login_of(url)} of this API lacks a right ({reason}): run what "
        "`holdfast migrate --grants` prints as the owner of the schema, and grant holdfast_api to the login"
    )


def install(app: FastAPI) -> None:
    """Have every error of the app answered so."""

    async def handle(_: Request, error: Exception) -> JSONResponse:
        return answer_for(error)

    async def handle_missing_right(request: Request, error: Exception) -> JSONResponse:
        return answer_for(missing_right(request.app.state.service.settings.database_url, error))

    for kind in (
        Refused,
        HTTPException,
        RequestValidationError,
        psycopg.OperationalError,
        psycopg.DataError,
        HoldfastError,
        Exception,
    ):
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(psycopg.errors.InsufficientPrivilege, handle_missing_right)
