"""The endpoints of a server, and how their requests are read and described."""

import collections
import dataclasses
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from keras_mt.version import __version__

_JSON, *_FORMS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_OBJECT = TypeAdapter(dict[str, Any])


class Fields(BaseModel):
    """The fields of a request, in its query and in a form or JSON; others are ignored."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


class KeyFields(Fields):
    """Those of a request that needs an API key, which may stand in its header instead."""

    auth_key: str | None = None
    api_key: str | None = None


# A list of strings, or one alone.
Strings = Annotated[list[str], BeforeValidator(lambda x: x if isinstance(x, list) else [x])]
File = Annotated[Any, Field(json_schema_extra={"type": "string", "format": "binary"})]


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
    """The fields of a request; HTTPException says what is wrong."""
    given = _values(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == _FORMS[0]:  # Starlette reads letters that are not escaped as Latin-1.
            given |= _values(QueryParams((await request.body()).decode()))
        elif kind in _FORMS:
            form = await request.form(max_files=1)
            for _, value in form.multi_items():
                str(value).encode()  # UTF-7 has halves of characters.
            given |= _values(form)
        elif data := await request.body():
            if kind not in (_JSON, ""):
                raise HTTPException(415, f"a body must be JSON or a form, not {kind}")
            body = _OBJECT.validate_json(data)
            given |= {name: value for name, value in body.items() if value is not None}
        return fields.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise HTTPException(400, f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
    except ValueError:
        raise HTTPException(400, "the form cannot be read") from None


def _values(pairs):
    """The values of a query or a form by their names; a list for several."""
    lists = {name: pairs.getlist(name) for name in pairs}
    return {name: own if len(own) > 1 else own[0] for name, own in lists.items()}


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of endpoints as OpenAPI."""
    paths: dict[str, dict[str, Any]] = collections.defaultdict(dict)
    for endpoint in endpoints:
        schema = endpoint.fields.model_json_schema()
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", endpoint.path)
        ]
        operation = {"summary": endpoint.summary, "parameters": parameters}
        if issubclass(endpoint.fields, KeyFields):
            operation["security"] = [{"key": []}, {}]
        if endpoint.method == "POST":
            kinds = _FORMS[1:] if endpoint.has_file else (_JSON, _FORMS[0])
            operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in kinds}}
        else:
            fields = schema.get("properties", {}).items()
            parameters += [{"name": name, "in": "query", "schema": own} for name, own in fields]
        paths[endpoint.path][endpoint.method.lower()] = operation
    key = {"type": "apiKey", "in": "header", "name": "Authorization"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "keras_mt", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"key": key}},
    }
