"""The interface of DeepL, v2: https://developers.deepl.com/api-reference."""

import csv
import io
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from keras_mt.serving.catalogue import name_of
from keras_mt.serving.fields import Endpoint, File, KeyFields, Strings
from keras_mt.serving.glossaries import bases
from keras_mt.serving.texts import Wish

if TYPE_CHECKING:  # It imports this module.
    from keras_mt.serving.app import Service

_NO_LIMIT = 10**12  # What DeepL says where characters have no limit.


class _WishFields(KeyFields):
    """What texts and documents have in common; other fields are ignored, and a header says so."""

    model_config = ConfigDict(extra="allow")

    target_lang: str
    source_lang: str = ""
    glossary_id: str = ""
    glossary_ids: None = None  # Several at once, which nothing here can follow.

    @property
    def headers(self) -> dict[str, str]:
        """The header that names what is ignored."""
        names = [name for name in self.model_extra or () if re.fullmatch("[a-z_]{1,40}", name)]
        return {"X-Ignored-Parameters": ", ".join(names[:20])} if names else {}


class _TextFields(_WishFields):
    text: Strings = Field(min_length=1)
    split_sentences: Annotated[Literal["0", "1", "nonewlines"], BeforeValidator(str)] = "1"
    tag_handling: Literal["", "html", "xml"] = ""
    show_billed_characters: bool = True


class _DocumentFields(_WishFields):
    file: File
    filename: str = ""
    output_format: str = ""


class _DocumentKeyFields(KeyFields):
    document_key: str


class _LanguagesFields(KeyFields):
    type: Literal["source", "target"] = "source"


class _GlossaryFields(KeyFields):
    name: str = Field(min_length=1)
    source_lang: str
    target_lang: str
    entries: str
    entries_format: Literal["tsv", "csv"]


def endpoints(service: "Service") -> list[Endpoint]:
    """The endpoints of a `Service`."""
    api = _Api(service)
    glossary, document = "/v2/glossaries/{id}", "/v2/document/{id}"
    of_both_methods = [
        ("/v2/translate", api.translate, "Translates texts.", _TextFields),
        ("/v2/languages", api.languages, "Lists languages.", _LanguagesFields),
        ("/v2/usage", api.usage, "Counts the characters of a user.", KeyFields),
        (document, api.status, "Says how far a document is.", _DocumentKeyFields),
        (f"{document}/result", api.result, "Fetches a document.", _DocumentKeyFields),
    ]
    return [
        *(Endpoint(method, *each) for each in of_both_methods for method in ("GET", "POST")),
        Endpoint("POST", "/v2/document", api.upload, "Translates a document.", _DocumentFields),
        Endpoint("GET", "/v2/glossary-language-pairs", api.pairs, "Lists pairs of glossaries."),
        Endpoint("POST", "/v2/glossaries", api.make_glossary, "Makes a glossary.", _GlossaryFields),
        Endpoint("GET", "/v2/glossaries", api.glossaries, "Lists glossaries."),
        Endpoint("GET", glossary, api.glossary, "Describes a glossary."),
        Endpoint("DELETE", glossary, api.remove_glossary, "Removes a glossary."),
        Endpoint("GET", f"{glossary}/entries", api.entries, "Lists the terms of a glossary."),
    ]


class _Api:
    """The functions of the endpoints."""

    def __init__(self, service) -> None:
        self._service, self._catalogue = service, service.catalogue

    async def translate(self, request: Request, fields: _TextFields, user: str) -> Response:
        # XML is read as HTML, whose reader keeps elements that it does not know, such as `<x/>`.
        is_html = bool(fields.tag_handling)
        wish = self._wish(fields, is_html, fields.split_sentences)
        found = await self._service.translate(user, fields.text, wish)
        rows = [
            {
                "detected_source_language": translation.source[0].upper(),
                "text": translation.text,
                "billed_characters": len(text),
            }
            for text, translation in zip(fields.text, found, strict=True)
        ]
        return JSONResponse({"translations": rows}, headers=fields.headers)

    def _wish(self, fields, *details):
        """The wish of fields; its source is "" if none is named."""
        target = self._catalogue.target(fields.target_lang)
        source = fields.source_lang and self._catalogue.source(fields.source_lang)
        if fields.glossary_id and not source:
            raise HTTPException(400, "glossary_id needs source_lang")
        return Wish(source, target, fields.glossary_id or None, *details)

    async def languages(self, request: Request, fields: _LanguagesFields, user: str) -> Response:
        is_target = fields.type == "target"
        codes = self._catalogue.targets if is_target else self._catalogue.sources
        more = {"supports_formality": False} if is_target else {}
        rows = [{"language": code.upper(), "name": name_of(code), **more} for code in codes]
        return JSONResponse(rows)

    async def usage(self, request: Request, fields: KeyFields, user: str) -> Response:
        count = self._service.characters.get(user, 0)
        return JSONResponse({"character_count": count, "character_limit": _NO_LIMIT})

    async def pairs(self, request: Request, *_: Any) -> Response:
        return JSONResponse({"supported_languages": [*map(_languages, self._pairs())]})

    def _pairs(self):
        """The pairs of languages whose models take glossaries."""
        catalogue = self._catalogue
        pairs = ((a, b) for a in catalogue.sources for b in catalogue.targets_of(a))
        found = (pair for pair in pairs if catalogue.pool(*pair).facts.supports_terms)
        return list(dict.fromkeys(bases(*pair) for pair in found))

    async def make_glossary(self, request: Request, fields: _GlossaryFields, user: str) -> Response:
        source = self._catalogue.source(fields.source_lang)
        target = self._catalogue.target(fields.target_lang)
        self._catalogue.pool(source, target)
        terms = _terms(fields.entries, fields.entries_format)
        made = self._service.glossaries.add(fields.name, source, target, terms, user)
        return JSONResponse(self._described(made)[0], 201)

    async def glossaries(self, request: Request, fields: KeyFields, user: str) -> Response:
        rows = [row for each in self._service.glossaries.of(user) for row in self._described(each)]
        return JSONResponse({"glossaries": rows})

    async def glossary(self, request: Request, fields: KeyFields, user: str) -> Response:
        found = self._service.glossaries.find(request.path_params["id"], user)
        return JSONResponse(self._described(found)[0])

    def _described(self, glossary):
        """The description of a glossary, for each pair of languages that it is for."""
        own = [bases(glossary.source, glossary.target)]
        return [
            {
                "glossary_id": glossary.id,
                "name": glossary.name,
                "ready": True,
                **_languages(pair),
                "creation_time": glossary.created,
                "entry_count": len(glossary.terms),
            }
            for pair in ((glossary.source and own) or self._pairs() or own)
        ]

    async def remove_glossary(self, request: Request, fields: KeyFields, user: str) -> Response:
        self._service.glossaries.remove(request.path_params["id"], user)
        return Response(status_code=204)

    async def entries(self, request: Request, fields: KeyFields, user: str) -> Response:
        terms = self._service.glossaries.find(request.path_params["id"], user).terms
        lines = "".join(f"{source}\t{target or source}\n" for source, target, *_ in terms)
        return PlainTextResponse(lines, media_type="text/tab-separated-values")

    async def upload(self, request: Request, fields: _DocumentFields, user: str) -> Response:
        name = fields.filename or getattr(fields.file, "filename", None) or ""
        if not name.lower().endswith(fields.output_format.lower()):
            raise HTTPException(400, "output_format: a document keeps its format")
        file = await self._service.files.begin(fields.file, self._wish(fields), user, name)
        answer = {"document_id": file.id, "document_key": file.key}
        return JSONResponse(answer, headers=fields.headers)

    async def status(self, request: Request, fields: _DocumentKeyFields, user: str) -> Response:
        file = self._service.files.find(request.path_params["id"], fields.document_key)
        answer = {"document_id": file.id, "status": "translating"}
        if file.task.done() and (error := file.task.exception()):
            answer |= {"status": "error", "error_message": error.detail}
        elif file.task.done():
            answer |= {"status": "done", "billed_characters": file.characters}
            if refused := file.task.result()["refused"]:
                answer["error_message"] = f"{refused} texts were refused and are not translated"
        return JSONResponse(answer)

    async def result(self, request: Request, fields: _DocumentKeyFields, user: str) -> Response:
        file = self._service.files.find(request.path_params["id"], fields.document_key)
        if not file.task.done():
            raise HTTPException(503, "the document is being translated", {"Retry-After": "1"})
        headers = {"Content-Disposition": "attachment"}
        return Response(self._service.files.take(file), 200, headers, "application/octet-stream")


def _languages(pair):
    return dict(zip(("source_lang", "target_lang"), pair, strict=True))


def _terms(entries, kind):
    """The terms of a glossary's entries; in CSV, the languages may follow each."""
    is_csv = kind == "csv"
    options = {} if is_csv else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    try:
        rows = [*filter(any, csv.reader(io.StringIO(entries, ""), strict=True, **options))]
    except csv.Error as error:
        raise HTTPException(400, f"entries: {error}") from None
    if wrong := [row for row in rows if not 2 <= len(row) <= (4 if is_csv else 2)]:
        raise HTTPException(400, f"entries: {wrong[0]} must be a term and its translation")
    return [[term.strip() for term in row[:2]] for row in rows]
