"""Encodes and decodes payloads and results as JSON, by the declared type and payload version."""

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from holdfast.core.errors import BadHandler, BadPayload, VersionUnknown
from holdfast.core.handler import Bulk, Task, hash_of_schema
from holdfast.worker.tracebacks import why_invalid

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def payload_type(kind: str, function: Callable[..., object], given: type = Task) -> Any:
    """What the handler of a kind takes: the P of its `Task[P]` (of a bulk, its `Bulk[P]`), or anything."""
    verb, thing = ("task", "task") if given is Task else ("bulk_task", "bulk")
    if not callable(function):
        raise BadHandler(f'{function!r} is not a function: write @app.{verb}("{kind}") above a function')
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise BadHandler(f"the handler of {kind} yields: a handler returns a value or an outcome")
    parameters = list(inspect.signature(function).parameters.values())
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [one for one in parameters if one.default is one.empty and one.kind not in rest]
    if len(parameters) < 1 or len(required) > 1:
        raise BadHandler(
            f"the handler of {kind} takes {len(required)} arguments: it is given one, the {thing} "
            f"(def handler({thing}: {given.__name__}[Payload]))"
        )
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise BadHandler(
            f"the annotations of the handler of {kind} cannot be read: {error}; define the payload before it"
        ) from error
    hint = hints.get(parameters[0].name, Any)
    if typing.get_origin(hint) is given:
        return typing.get_args(hint)[0]
    if hint is given or hint is Any:
        return Any
    name = getattr(hint, "__name__", str(hint))
    if typing.get_origin(hint) in (Task, Bulk):
        raise BadHandler(
            f"the handler of {kind} takes a {name}, and @app.{verb} gives it a {given.__name__}: "
            "a task is handled by @app.task, a bulk of them by @app.bulk_task"
        )
    raise BadHandler(
        f"the handler of {kind} takes a {name}: it is given a {thing}, so write "
        f"{given.__name__}[{name}] and read {'task.payload' if given is Task else 'the payload of each'}"
    )


class Codec:
    """How one kind's payloads are written and read."""

    def __init__(self, kind: str, payload: Any, version: int, upgrades: Mapping[int, Upgrade]) -> None:
        self._kind = kind
        self._version = version
        self._upgrades = upgrades
        self._type = TypeAdapter(payload)
        missing = [step for step in range(min(upgrades, default=version), version) if step not in upgrades]
        if missing or any(step >= version or step < 1 for step in upgrades):
            raise BadHandler(
                f"kind {kind} has version {version} and upgrades from {sorted(upgrades)}: give one for each "
                "version from the oldest that may still wait, up to the one before this"
            )

    def payload_hash(self) -> str | None:
        """By which a change of the payload's model is noticed."""
        try:
            return hash_of_schema(self._type.json_schema())
        except PydanticUserError:
            # A type of the user's own that has no JSON schema.
            return None

    def encode(self, payload: object) -> str:
        """A payload as JSON text, if it is what the kind takes."""
        try:
            # Strict about the model, lenient about how it was made: a dict with the right fields will do.
            checked = self._type.validate_python(payload)
            return self._type.dump_json(checked).decode()
        except ValidationError as error:
            raise BadPayload(f"a {self._kind} task takes another payload: {why_invalid(error)}") from error
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise BadPayload(
                f"the payload of a {self._kind} task cannot be written as JSON: {error}"
            ) from error

    def check(self, text: str) -> str:
        """A payload that somebody wrote by hand, as it is to be kept."""
        try:
            return self._type.dump_json(self._type.validate_json(text)).decode()
        except ValidationError as error:
            raise BadPayload(f"a {self._kind} task takes another payload: {why_invalid(error)}") from error

    def decode(self, text: str, version: int) -> object:
        """A payload of any known version, as the handler takes it now."""
        if version == self._version:
            return self._type.validate_json(text)
        if version > self._version or version not in self._upgrades:
            raise VersionUnknown(self._kind, version, self._version)
        values = json.loads(text)
        for step in range(version, self._version):
            values = self._upgrades[step](values)
        return self._type.validate_python(values)


def encode_result(result: object) -> str:
    """A result as JSON text; models and dates are written as pydantic writes them."""
    return to_json(result).decode()
