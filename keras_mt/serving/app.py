"""The application of a server: its routes, and what holds for all of them."""

import asyncio
import dataclasses
import hmac
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keras_mt.serving import deepl, libretranslate, page
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.fields import Endpoint, Fields, KeyFields, openapi, read_fields
from keras_mt.serving.files import Files
from keras_mt.serving.glossaries import Glossaries
from keras_mt.serving.pool import Pool
from keras_mt.serving.texts import Plan, Translation, Wish
from keras_mt.serving.worker import Answer

_log = logging.getLogger("keras_mt.serving")
_SCHEMES = ("deepl-auth-key", "bearer")
_MAX_QUERY = 32_000
_AT_ONCE = 1000  # The parts of a request that wait at once.
_EXPOSED = ("Retry-After", "X-Ignored-Parameters")
_MESSAGES = {
    "Not Found": "there is no such path",
    "Method Not Allowed": "the path has no such method",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a server.

    Attributes:
        api_keys: The names of users by their keys; none if nobody needs one.
        cors: The origins whose pages may ask; `*` for all.
        max_body: The maximum bytes of a request without a file.
        max_file: The maximum bytes of a request with a file.
        max_texts: The maximum texts of a request.
        max_characters: The maximum characters of a request.
        timeout: The seconds that a request may take.
        folder: The private folder of what clients upload.
    """

    folder: Path
    api_keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cors: Sequence[str] = ()
    max_body: int = 1 << 20
    max_file: int = 20 << 20
    max_texts: int = 128
    max_characters: int = 100_000
    timeout: float = 60.0


class Service:
    """What the interfaces have in common: models, limits, keys and counts.

    Attributes:
        catalogue: The `Catalogue`.
        settings: The `Settings`.
        glossaries: The `Glossaries`.
        files: The `Files`.
        is_ending: Whether the endpoints refuse new requests.
        running: The number of requests that run.
        characters: The characters that each user has had translated.
    """

    def __init__(self, catalogue: Catalogue, settings: Settings, glossaries: Glossaries):
        self.catalogue, self.settings, self.glossaries = catalogue, settings, glossaries
        self.files, self.is_ending, self.running = Files(self), False, 0
        self.characters: dict[str, int] = {}
        self._registry = CollectorRegistry()
        numbers = {"registry": self._registry, "namespace": "keras_mt"}
        self.requests = Counter("requests", "Requests", ["route", "status"], **numbers)
        self.latency = Histogram("latency_seconds", "Time to the answer", ["route"], **numbers)
        self.texts = Counter("texts", "Texts that were translated", ["model"], **numbers)
        self.sizes = Counter("characters", "Characters of these texts", ["model"], **numbers)
        waiting = Gauge("queue_texts", "Parts of texts that wait", ["model"], **numbers)
        deaths = Gauge("worker_deaths", "Workers that died", ["model"], **numbers)
        for pool in catalogue.pools:
            waiting.labels(pool.name).set_function(lambda pool=pool: len(pool.queue))
            deaths.labels(pool.name).set_function(lambda pool=pool: pool.deaths)

    async def ready(self, request: Request, *_: Any) -> Response:
        """Answers 503 where a model has no worker, or the server ends."""
        waits = [pool.name for pool in self.catalogue.pools if not pool.is_ready]
        is_ready = not waits and not self.is_ending
        return JSONResponse({"ready": is_ready, "waits_for": waits}, 200 if is_ready else 503)

    async def metrics(self, request: Request, *_: Any) -> Response:
        """The metrics, in the text format of Prometheus."""
        return PlainTextResponse(generate_latest(self._registry))

    def user_of(self, request: Request, fields: Fields) -> str:
        """The name of who asks, by the key in a header or among the fields; else HTTPException."""
        keys = self.settings.api_keys
        if not keys or not isinstance(fields, KeyFields):
            return ""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        given = given if scheme.lower() in _SCHEMES else fields.auth_key or fields.api_key or ""
        given = given.strip().encode()
        # All keys are compared, so that the time says nothing.
        names = [name for key, name in keys.items() if hmac.compare_digest(key.encode(), given)]
        if not names:
            raise HTTPException(403, "the API key is wrong" if given else "an API key is needed")
        return names[0]

    async def translate(self, user: str, texts: Sequence[str], wish: Wish) -> list[Translation]:
        """A translation of each text; HTTPException if one is refused, or all are too much.

        The source of the wish may be "": the languages that the texts seem to have.
        """
        limits, size = self.settings, sum(map(len, texts))
        if len(texts) > limits.max_texts:
            message = f"a request may have {limits.max_texts:,} texts, not {len(texts):,}"
            raise HTTPException(413, message)
        if size > limits.max_characters:
            message = f"a request may have {limits.max_characters:,} characters, not {size:,}"
            raise HTTPException(413, message)
        rows = [self.planned(user, self.with_source(wish, text), [text]) for text in texts]
        found = {}
        for pool in dict.fromkeys(pool for pool, _ in rows):
            own = [plan for other, [plan] in rows if other is pool]
            found |= zip(own, await self.answers(user, pool, own), strict=True)
        return [plan.translation(found[plan]) for _, [plan] in rows]

    def with_source(self, wish: Wish, text: str) -> Wish:
        """A wish with the language that a text seems to have, if it names none."""
        if wish.source:
            return wish
        known = self.catalogue.sources_of(wish.target)
        source, confidence = self.catalogue.detect(text, known, wish.html)[0]
        return dataclasses.replace(wish, source=source, confidence=confidence)

    def planned(self, user: str, wish: Wish, texts: Sequence[str]) -> tuple[Pool, list[Plan]]:
        """The model for a wish that names its source, and a `Plan` of each text.

        HTTPException if there is no such model, or no such glossary for the user.
        """
        pair, terms = (wish.source, wish.target), None
        if wish.glossary is not None:
            terms = self.glossaries.find(wish.glossary, user, pair).pickled
        pool = self.catalogue.pool(*pair)
        return pool, [Plan(text, wish, pool.facts, terms) for text in texts]

    async def answers(
        self, user: str, pool: Pool, plans: Sequence[Plan], waits: bool = False
    ) -> list[list[Answer]]:
        """The answers to the jobs of each plan, which are counted; `waits` as in `Pool`."""
        jobs, answers = [job for plan in plans for job in plan.jobs], []
        for i in range(0, len(jobs), _AT_ONCE):  # A book leaves room for others.
            answers += await pool.translate(jobs[i : i + _AT_ONCE], waits or i > 0)
        answers = iter(answers)
        found = [[next(answers) for _ in plan.jobs] for plan in plans]
        self.texts.labels(pool.name).inc(len(plans))
        size = sum(plan.characters for plan in plans)
        self.sizes.labels(pool.name).inc(size)
        self.characters[user] = self.characters.get(user, 0) + size
        return found

    def route(self, endpoint: Endpoint) -> Route:
        """The route of an endpoint: within the limits, and ended if the client goes away."""

        async def answer(request):
            self._admit(request)
            kind = request.headers.get("content-type", "").lower()
            has_file = endpoint.has_file and kind.startswith("multipart/form-data")
            limit = self.settings.max_file if has_file else self.settings.max_body
            _limit_body(request, limit)
            try:
                async with asyncio.timeout(self.settings.timeout):
                    fields = await read_fields(request, endpoint.fields)
                    user = request.state.user = self.user_of(request, fields)
                    return await _unless_gone(request, endpoint.function(request, fields, user))
            except ClientDisconnect:
                return Response(status_code=499)  # For the log alone.
            except TimeoutError:
                message = f"the request took more than {self.settings.timeout:g} s"
                raise HTTPException(504, message) from None
            finally:
                await request.close()

        route = Route(endpoint.path, answer, methods=[endpoint.method])
        if "{" in endpoint.path or issubclass(endpoint.fields, KeyFields):
            route.methods.discard("HEAD")  # Which would translate, or take a file, for nobody.
        return route

    def _admit(self, request):
        """Refuses requests while the server ends, and those of other sites' pages."""
        if self.is_ending and request.scope["path"] not in ("/health", "/ready"):
            raise HTTPException(503, "the server ends", {"Connection": "close"})
        # Forms of other sites, which browsers send without asking.
        headers, cors = request.headers, self.settings.cors
        is_foreign = headers.get("sec-fetch-site") == "cross-site" and request.method != "GET"
        if is_foreign and "*" not in cors and headers.get("origin") not in cors:
            message = "pages of other sites may not ask: see --cors"
            raise HTTPException(403, message, {"Connection": "close"})


def create_app(service: Service) -> Starlette:
    """The application of a service."""
    endpoints = [
        Endpoint("GET", "/health", _health, "Says that the server runs.", Fields),
        Endpoint("GET", "/ready", service.ready, "Says whether models answer.", Fields),
        Endpoint("GET", "/metrics", service.metrics, "Counts and times, for Prometheus."),
    ]
    endpoints += [*deepl.endpoints(service), *libretranslate.endpoints(service)]
    description = JSONResponse(openapi(endpoints))

    async def describe(request, *_):
        return description

    endpoints.append(Endpoint("GET", "/openapi.json", describe, "This description."))
    cors = list(service.settings.cors)
    every = {"allow_methods": ["*"], "allow_headers": ["*"], "expose_headers": list(_EXPOSED)}
    allowed = [Middleware(CORSMiddleware, allow_origins=cors, **every)] if cors else []
    return Starlette(
        routes=[*map(service.route, endpoints), *page.routes()],
        middleware=[*allowed, Middleware(_Watch, service)],
        exception_handlers={HTTPException: _failed, Exception: _failed},
    )


async def _health(request, *_):
    return JSONResponse({"status": "ok"})


def _failed(request, error):
    """The answer to a request that failed, in the shape of its interface."""
    status, message, headers = 500, "there is an error in the server; its log has more", None
    if isinstance(error, HTTPException):
        status, headers = error.status_code, error.headers
        message = _MESSAGES.get(error.detail, error.detail)
    name = "message" if request.scope["path"].startswith("/v2/") else "error"
    return JSONResponse({name: message}, status, headers)


def _limit_body(request, limit):
    """Has the body of a request refused where it is too large."""
    receive, size = request.receive, 0
    if len(request.scope["query_string"]) > _MAX_QUERY:
        raise HTTPException(414, f"an address may have {_MAX_QUERY:,} characters: send a body")

    async def limited():
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise HTTPException(413, f"a request may have {limit:,} bytes", {"Connection": "close"})
        return message

    request._receive = limited


async def _unless_gone(request, coroutine):
    """What a coroutine returns; it is cancelled if the client goes away."""
    task = asyncio.create_task(coroutine)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else Response(status_code=499)  # For the log alone.
    finally:
        task.cancel()
        gone.cancel()


async def _gone(request):
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Watch:
    """Counts and logs requests, without their texts."""

    def __init__(self, app: ASGIApp, service: Service):
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        service, start, status = self._service, time.monotonic(), 500

        async def sent(message: Message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        service.running += 1
        try:
            await self._app(scope, receive, sent)
        finally:
            service.running -= 1
            seconds = time.monotonic() - start
            route = getattr(scope.get("route"), "path", "")
            service.requests.labels(route, status).inc()
            service.latency.labels(route).observe(seconds)
            values = {
                "method": scope["method"],
                "path": route or "unknown",
                "status": status,
                "ms": round(1000 * seconds, 1),
                "user": scope.get("state", {}).get("user", ""),
            }
            _log.info("request", extra=values)
