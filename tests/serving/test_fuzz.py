"""Wild requests to every endpoint: never a 500, and always the error of its interface."""

import json
import tempfile
from pathlib import Path

import pytest
from conftest import needed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import KEY, Capitals
from starlette.testclient import TestClient

from keras_mt.serving.app import Service, Settings, create_app
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.glossaries import Glossaries

NAMES = (
    *("q", "source", "target", "format", "alternatives", "api_key", "auth_key", "glossary"),
    *("details", "text", "source_lang", "target_lang", "tag_handling", "split_sentences"),
    *("glossary_id", "name", "entries", "entries_format", "document_key", "type", "file"),
    *("show_billed_characters", "output_format", "filename", "context"),
)
# What is right somewhere, and what is wrong nearly everywhere.
WORDS = st.sampled_from(
    [
        *("en", "de", "auto", "html", "xml", "nonewlines", "0", "1", "tsv", "csv", "a,b", "a.txt"),
        *("dogs", "en-US", "zh-Hans", "true"),
        *("a\tb", "A dog. A cat.\n", "<p>A <b>dog</b>", "", " ", "refuse this"),
        *("\0", "\ud800", "𝄞", "../../etc/passwd", "-1", "1e999", "NaN", "a" * 5000, "<![CDATA["),
        *("&#0;", '"', "\t\t", "\r", "<a" * 500, "&" * 500, "\u2028", "%00", "\x1c", "\ufeff"),
    ]
)
TEXTS = WORDS | st.text(max_size=30)
NUMBERS = st.integers() | st.floats() | st.sampled_from((10**400, -(10**19)))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda x: st.lists(x, max_size=4) | st.dictionaries(TEXTS, x, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from(NAMES), TEXTS | VALUES, max_size=8)
RIGHT = {
    "q": "a",
    "text": "a",
    "target": "de",
    "target_lang": "de",
    "name": "n",
    "source_lang": "en",
    "entries": "a\tb",
    "entries_format": "tsv",
    "document_key": "k",
}
BODIES = ("json", "form", "multipart", "bytes", "nothing")
KINDS = (
    *("application/json", "application/x-www-form-urlencoded", "multipart/form-data"),
    *("text/plain", "", "application/json; charset=utf-16"),
    *("multipart/form-data; boundary=a", "multipart/form-data; boundary=a; charset=undefined"),
    "multipart/form-data; boundary=a; charset=utf-7",
)
BYTES = (
    b"[" * 100_000,
    b'{"q":' * 100_000,
    b"9" * 5000,
    b'{"q": "\\ud800", "text": "\\ud800", "target": "de", "target_lang": "de"}',
    b"null",
    b"\xff\xfe",
    b'{"q": "\xed\xa0\x80"}',
    b"&&&===",
    b"q=%ff%00&target=de",
    b"a=b&" * 5000,
    b"{}" * 2,
    b'--a\r\nContent-Disposition: form-data; name="q"\r\n\r\n+2AA-\xff\r\n--a--\r\n',
    b'--a\r\nContent-Disposition: form-data; name="q"\r\n\r\n+2AA-\r\n'
    b'--a\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n--a--\r\n',
    b"--a--",
    b"--a\r\n\r\n",
    b'--a\r\nContent-Disposition: form-data; name="file"; '
    b'filename="../\0a.txt"\r\n\r\na\r\n--a--\r\n',
)
HEADERS = st.dictionaries(
    st.sampled_from(("Host", "Authorization", "Origin", "Range", "X-Forwarded-For", "Expect")),
    st.sampled_from(
        ("", "[", "a b", "Bearer", "Bearer  x", "DeepL-Auth-Key \xff", "://", "a:99999999")
    ),
    max_size=2,
)


@pytest.fixture(scope="module")
def app():
    """An application of models without processes, some of them without a right answer."""
    pools = [Capitals(), Capitals("de", "fr")]
    pools[1].facts = pools[1].facts._replace(supports_alignment=False, supports_terms=False)
    with tempfile.TemporaryDirectory() as folder:
        limits = {"max_body": 1 << 16, "max_file": 1 << 16, "max_texts": 4, "max_characters": 2000}
        own = Settings(Path(folder), {KEY: "tester"}, ["http://a"], **limits)
        yield create_app(Service(Catalogue(pools), own, Glossaries(maximum=20)))


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app, "http://server", raise_server_exceptions=False) as client:
        yield client


def check(answer, path, method):
    """An answer is no failure of the server; a refusal says why."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and method != "HEAD":
        error = answer.json()
        assert [*error] == ["message" if path.startswith("/v2/") else "error"], answer.text
        assert next(iter(error.values()))


PATHS = (
    *("/health", "/ready", "/metrics", "/openapi.json", "/translate", "/detect", "/languages"),
    *("/translate_file", "/frontend/settings", "/glossaries", "/v2/translate", "/v2/languages"),
    *("/v2/usage", "/v2/glossary-language-pairs", "/v2/glossaries", "/v2/glossaries/{}"),
    *("/v2/glossaries/{}/entries", "/v2/document", "/v2/document/{}", "/v2/document/{}/result"),
    *("/download_file/{}", "/{}", "/v2/{}"),
    *("/", "/index.html", "/page.css", "/page.js", "/icon.svg"),
)
IDS = st.sampled_from(
    ("dogs", "a-b.txt", "-", "%00", "%ED%A0%80", "..%2f..", "%F0%9D%84%9E", "a" * 99)
)


@st.composite
def requests(draw):
    """The arguments of a request, of which some are right."""
    method = draw(
        st.sampled_from(("POST", "POST", "POST", "GET", "DELETE", "HEAD", "OPTIONS", "PUT"))
    )
    path = draw(st.sampled_from(PATHS)).format(draw(IDS))
    headers = draw(HEADERS) | draw(st.sampled_from(({}, {"Authorization": f"Bearer {KEY}"})))
    fields = draw(st.sampled_from(({}, RIGHT))) | draw(FIELDS)
    body = draw(st.sampled_from(BODIES))
    request = {"headers": headers}
    if body == "bytes":
        headers["Content-Type"] = draw(st.sampled_from(KINDS))
        request["content"] = draw(st.binary(max_size=60) | st.sampled_from(BYTES))
    elif body == "json":
        headers["Content-Type"] = "application/json"
        request["content"] = json.dumps(fields).encode()
    elif body != "nothing":
        rows = {name: as_strings(value) for name, value in fields.items()}
        request["data"] = rows
        if body == "multipart":
            request["files"] = {"file": (draw(TEXTS).encode(errors="replace").decode(), b"a dog")}
    if draw(st.booleans()):
        request["params"] = {n: as_strings(x) for n, x in draw(FIELDS).items()}
    headers = {name: value.encode("latin-1") for name, value in headers.items()}
    return method, path, request | {"headers": headers}


def as_strings(value):
    """What a form can have of a value."""
    values = value if isinstance(value, list) else [value]
    return [str(each).encode(errors="replace").decode() for each in values]


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/translate_file"])
def test_bodies_of_no_form(client, path):
    for kind in KINDS:
        for data in BYTES:
            headers = {"Content-Type": kind, "Authorization": f"Bearer {KEY}"}
            check(client.post(path, content=data, headers=headers), path, "POST")


WILD = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@pytest.mark.long
@settings(max_examples=300, **WILD)
@given(request=requests())
def test_wild_requests(client, request):
    method, path, arguments = request
    check(client.request(method, path, **arguments), path, method)


def test_every_path_is_asked(app):
    assert {route.path for route in app.routes} <= {
        path.replace("{}", f"{{{name}}}") for path in PATHS for name in ("id", "name")
    }


@pytest.mark.long
def test_requests_made_from_the_description(app):
    schemathesis, key = needed("schemathesis"), {"Authorization": f"Bearer {KEY}"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=key)
    for result in schema.get_all_operations():

        @settings(max_examples=4, **WILD)
        @given(case=result.ok().as_strategy())
        def ask(case):
            check(case.call(headers=key), case.path, case.method)

        ask()
