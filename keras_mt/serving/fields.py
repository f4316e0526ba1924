"""The endpoints of a server, and how their requests are read and described."""

import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    WithJsonSchema,
    field_validator,
)
from starlette.requests import Request
from starlette.responses import Response

from keras_mt.serving.errors import ApiError
from keras_mt.version import __version__

_FORMS = "application/x-www-form-urlencoded", "multipart/form-data"


class Fields(BaseModel):
    """The fields of a request, in its query and in a form or JSON; others are ignored."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    @field_validator("*")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        """Refuses halves of characters, which JSON and some charsets can have."""
        json.dumps(value, ensure_ascii=False, default=str).encode()
        return value


class KeyFields(Fields):
    """Those of a request that needs an API key, which may stand in its header instead."""

    auth_key: str | None = None
    api_key: str | None = None


# A list of strings, or one alone.
Strings = Annotated[list[str], BeforeValidator(lambda x: x if isinstance(x, list) else [x])]
File = Annotated[Any, WithJsonSchema({"type": "string", "format": "binary"})]


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A path of a server.

    Attributes:
        method: "GET", "POST" or "DELETE".
        path: The path, with `{name}` for what the function finds in `request.path_params`.
        function: Coroutine function of the request, its fields, and the user's name, which is ""
            where nobody needs a key. It returns a `Response`.
        summary: What it does, in one line.
        fields: The class of its fields; it needs no key unless that is a `KeyFields`.
    """

    method: str
    path: str
    function: Callable[[Request, Any, str], Awaitable[Response]]
    summary: str
    fields: type[Fields] = KeyFields

    @property
    def has_file(self) -> bool:
        """True if a request has a file."""
        return any(field.annotation is Any for field in self.fields.model_fields.values())


async def read_fields(request: Request, fields: type[Fields]) -> Fields:
    """The fields of a request; ApiError says what is wrong."""
    given = _values(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _FORMS:
        try:
            given |= _values(await request.form(max_files=1))
        except ValueError:
            raise ApiError(400, "the form cannot be read") from None
    elif data := await request.body():
        if kind not in ("application/json", ""):
            raise ApiError(415, f"a body must be JSON or a form, not {kind}")
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise ApiError(400, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise ApiError(400, "the body must be a JSON object")
        given |= {name: value for name, value in body.items() if value is not None}
    try:
        return fields.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ApiError(400, f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}") from None


def _values(pairs):
    """The values of a query or a form by their names; a list for several."""
    lists = {name: pairs.getlist(name) for name in pairs}
    return {name: own if len(own) > 1 else own[0] for name, own in lists.items()}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of endpoints as OpenAPI."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        schema = endpoint.fields.model_json_schema()
        names = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
        parameters = [{"name": name, "in": "path", "schema": {"type": "string"}} for name in names]
        operation: dict[str, Any] = {
            "summary": endpoint.summary,
            "parameters": [{**parameter, "required": True} for parameter in parameters],
            "responses": {
                "200": {"description": "The answer."},
                "default": {"description": "What is wrong."},
            },
        }
        if issubclass(endpoint.fields, KeyFields):
            operation["security"] = [{"key": []}, {}]
        if endpoint.method == "POST":
            kinds = _FORMS[1:] if endpoint.has_file else (*_FORMS[:1], "application/json")
            operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in kinds}}
        else:
            operation["parameters"] += [
                {"name": name, "in": "query", "schema": own}
                for name, own in schema.get("properties", {}).items()
            ]
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    key = {"type": "apiKey", "in": "header", "name": "Authorization"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "keras_mt", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"key": key}},
    }
