"""The page at `/`, to translate by hand."""

from pathlib import Path

from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

_FOLDER = Path(__file__).with_name("page")
_HEADERS = {
    "Cache-Control": "no-cache",  # It asks each time whether its copy is the newest.
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src 'self'; "
    "script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Files(StaticFiles):
    """Files that may load nothing from elsewhere, and run no script but their own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [each for each in scope["headers"] if each[0] != b"range"]  # They are small.
        await super().__call__({**scope, "headers": headers}, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


def routes() -> list[Route]:
    """The routes of the page and its files; they need no key."""
    files = _Files(directory=_FOLDER, html=True)
    paths = ["/", *(f"/{path.name}" for path in sorted(_FOLDER.iterdir()))]
    return [Route(path, files, methods=["GET"]) for path in paths]
