"""The interface of LibreTranslate: https://docs.libretranslate.com/api/."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from keras_mt.serving.catalogue import name_of
from keras_mt.serving.fields import Endpoint, Fields, File, KeyFields
from keras_mt.serving.files import SUFFIXES
from keras_mt.serving.texts import Wish

if TYPE_CHECKING:  # It imports this module.
    from keras_mt.serving.app import Service


class _WishFields(KeyFields):
    """`glossary` is an addition."""

    source: str = "auto"
    target: str
    glossary: str | None = None


class _TextFields(_WishFields):
    """Those of a text or a list of texts; `details` is an addition."""

    q: str | list[str]
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0)
    details: bool = False


class _FileFields(_WishFields):
    file: File


class _DetectFields(KeyFields):
    q: str


def endpoints(service: "Service") -> list[Endpoint]:
    """The endpoints of a `Service`."""
    api = _Api(service)
    return [
        Endpoint("POST", "/translate", api.translate, "Translates texts.", _TextFields),
        Endpoint("POST", "/detect", api.detect, "Finds a text's language.", _DetectFields),
        Endpoint("GET", "/languages", api.languages, "Lists languages.", Fields),
        Endpoint("POST", "/translate_file", api.translate_file, "Translates a file.", _FileFields),
        Endpoint("GET", "/download_file/{name}", api.download, "Fetches it, once.", Fields),
        Endpoint("GET", "/frontend/settings", api.settings, "Lists settings.", Fields),
        Endpoint("GET", "/glossaries", api.glossaries, "Lists glossaries."),
    ]


class _Api:
    """The functions of the endpoints."""

    def __init__(self, service) -> None:
        self._service, self._catalogue = service, service.catalogue

    async def translate(self, request: Request, fields: _TextFields, user: str) -> Response:
        is_one, is_html = isinstance(fields.q, str), fields.format == "html"
        detailed = fields.details and is_one and not is_html
        wish = self._wish(fields, html=is_html, detailed=detailed)
        found = await self._service.translate(user, [fields.q] if is_one else fields.q, wish)
        answer = {"translatedText": [each.text for each in found]}
        if not wish.source:
            answer["detectedLanguage"] = [_detected(*each.source) for each in found]
        if fields.alternatives:
            answer["alternatives"] = [each.alternatives[: fields.alternatives] for each in found]
        if detailed:
            answer["details"] = [{"links": x.links, "warnings": x.warnings} for x in found]
        return JSONResponse({n: x[0] for n, x in answer.items()} if is_one else answer)

    def _wish(self, fields, **details):
        is_named = fields.source.casefold() not in ("", "auto")
        source = self._catalogue.source(fields.source) if is_named else ""
        return Wish(source, self._catalogue.target(fields.target), fields.glossary, **details)

    async def detect(self, request: Request, fields: _DetectFields, user: str) -> Response:
        rows = [_detected(*found) for found in self._catalogue.detect(fields.q)]
        return JSONResponse([row for row in rows if row["confidence"]] or rows[:1])

    async def languages(self, *_: Any) -> Response:
        sources = {code: self._catalogue.targets_of(code) for code in self._catalogue.sources}
        every = dict.fromkeys(self._catalogue.targets, ()) | sources
        return JSONResponse([{**_named(code), "targets": own} for code, own in every.items()])

    async def translate_file(self, request: Request, fields: _FileFields, user: str) -> Response:
        file = await self._service.files.begin(fields.file, self._wish(fields), user)
        try:
            await file.task
        except HTTPException:
            self._service.files.remove(file)
            raise
        url = f"{request.base_url}download_file/{file.id}-{file.key}{file.suffix}"
        return JSONResponse({"translatedFileUrl": url})

    async def download(self, request: Request, *_: Any) -> Response:
        id, _, key = request.path_params["name"].partition(".")[0].partition("-")
        file = self._service.files.find(id, key)
        headers = {"Content-Disposition": f'attachment; filename="translated{file.suffix}"'}
        return Response(self._service.files.take(file), 200, headers, "application/octet-stream")

    async def settings(self, *_: Any) -> Response:
        settings, source = self._service.settings, self._catalogue.sources[0]
        pair = source, self._catalogue.targets_of(source)[0]
        return JSONResponse({
            "apiKeys": bool(settings.api_keys),
            "keyRequired": bool(settings.api_keys),
            "charLimit": settings.max_characters,
            "frontendTimeout": 500,
            "filesTranslation": True,
            "supportedFilesFormat": SUFFIXES,
            "suggestions": False,
            "language": dict(zip(("source", "target"), map(_named, pair), strict=True)),
        })  # fmt: skip

    async def glossaries(self, request: Request, fields: KeyFields, user: str) -> Response:
        names = "id", "name", "source", "target"
        rows = self._service.glossaries.of(user)
        return JSONResponse([{name: getattr(row, name) for name in names} for row in rows])


def _detected(code, probability):
    return {"confidence": round(100 * probability), "language": code}


def _named(code):
    return {"code": code, "name": name_of(code)}
