"""What holds for all requests: keys, limits, errors, metrics and the log."""

import asyncio
import logging
import re

import pytest
from served import FULL, KEY, Capitals
from starlette.testclient import TestClient

from keras_mt.serving.app import Service, Settings, create_app
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.glossaries import Glossaries

WISH = {"text": ["A dog runs."], "target_lang": "de"}
HEADER = {"Authorization": f"DeepL-Auth-Key {KEY}"}


@pytest.fixture
def made(tmp_path):
    """A function that makes a client of an application, and its service."""

    def make(pool=None, keys=(KEY, "other"), **settings):
        keys = {key: f"name of {key}" for key in keys}
        service = Service(
            Catalogue([pool or Capitals()]), Settings(tmp_path, keys, **settings), Glossaries()
        )
        return TestClient(create_app(service), raise_server_exceptions=False), service

    return make


def test_a_key_may_stand_in_headers_and_fields(made):
    client, service = made()
    for headers, more in (
        (HEADER, {}),
        ({"Authorization": f"Bearer {KEY}"}, {}),
        ({}, {"auth_key": KEY}),
        ({}, {"api_key": KEY}),
    ):
        for body in ("json", "data"):
            answer = client.post("/v2/translate", headers=headers, **{body: WISH | more})
            assert answer.json()["translations"][0]["text"] == "A DOG RUNS."
    assert service.characters == {f"name of {KEY}": 8 * len("A dog runs.")}


def test_without_a_right_key_only_public_paths_answer(made):
    client, _ = made()
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {KEY}"}):
        for method, path in (("POST", "translate"), ("GET", "languages"), ("GET", "glossaries")):
            answer = client.request(method, f"/v2/{path}", headers=headers, params=WISH)
            assert answer.status_code == 403 and "API key" in answer.json()["message"]
        assert client.get("/metrics", headers=headers).status_code == 403
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").status_code == 200
    client, _ = made(keys=())
    assert client.post("/v2/translate", json=WISH).status_code == 200


def test_limits(made):
    client, _ = made(max_body=1000, max_texts=2, max_characters=50)

    def status(**arguments):
        answer = client.post("/v2/translate", headers=HEADER, **arguments)
        return answer.status_code, answer.json().get("message", "")

    json = {"Content-Type": "application/json"}
    assert status(json=WISH)[0] == 200
    assert status(json=WISH | {"text": ["a"] * 3}) == (
        413, "a request may have 2 texts, not 3",
    )  # fmt: skip
    assert status(json=WISH | {"text": "a" * 51})[0] == 413
    assert status(content=b" " * 1001) == (413, "a request may have 1,000 bytes")
    chunked = client.post(
        "/v2/translate", headers=HEADER | json, content=(b" " * 100 for _ in range(20))
    )
    assert "content-length" not in chunked.request.headers and chunked.status_code == 413
    for body in (b"", b"{", b"[]", b"1", b"\xff", b"[" * 900):
        answer = client.post("/v2/translate", headers=HEADER | json, content=body)
        assert answer.status_code == 400 and answer.json()["message"], body
    assert client.get("/health", params={"x": "a" * 40_000}).status_code == 414


def test_errors_have_the_shape_of_the_interface(made):
    client, _ = made()
    assert client.get("/v2/nothing").json() == {"message": "there is no such path"}
    assert client.get("/nothing").json() == {"error": "there is no such path"}
    answer = client.delete("/health")
    assert (answer.status_code, answer.json()) == (405, {"error": "the path has no such method"})


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (FULL, 429, "try again in 7 s"),
        (RuntimeError("secret"), 500, "there is an error in the server"),
    ],
)
def test_errors_of_the_model(made, error, status, message):
    pool = Capitals()
    pool.error = error
    answer = made(pool)[0].post("/v2/translate", headers=HEADER, json=WISH)
    assert answer.status_code == status and message in answer.json()["message"]
    assert answer.headers.get("Retry-After") == ("7" if status == 429 else None)
    assert "secret" not in answer.text


def test_a_request_that_takes_too_long_frees_its_place(made):
    pool = Capitals(held=True)
    answer = made(pool, timeout=0.1)[0].post("/v2/translate", headers=HEADER, json=WISH)
    assert answer.status_code == 504 and "more than 0.1 s" in answer.json()["message"]
    assert not pool.running


def test_a_server_that_ends_refuses_what_is_new(made):
    client, service = made()
    service.is_ending = True
    assert client.post("/v2/translate", headers=HEADER, json=WISH).status_code == 503
    assert client.get("/ready").status_code == 503 and client.get("/health").status_code == 200


def test_pages_of_other_sites_may_ask_only_if_they_are_named(made):
    asks = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    allowed = "access-control-allow-origin"
    assert allowed not in made()[0].options("/v2/translate", headers=asks).headers
    client, _ = made(cors=["https://a.example"])
    assert client.options("/v2/translate", headers=asks).headers[allowed] == asks["Origin"]
    asks["Origin"] = "https://b.example"
    assert allowed not in client.options("/v2/translate", headers=asks).headers


def test_forms_of_other_sites_are_refused(made):
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": "https://a.example"}
    for cors, status in ((), 403), (["https://a.example"], 200), (["*"], 200):
        client, _ = made(keys=(), cors=cors)
        answer = client.post("/translate", data={"q": "a", "target": "de"}, headers=foreign)
        assert answer.status_code == status
        assert client.get("/", headers=foreign).status_code == 200  # A link to the page.


def test_a_client_that_goes_away_in_its_request_is_no_error(made):
    client, _ = made()

    async def receive():
        return {"type": "http.disconnect"}

    scope = {
        "type": "http", "method": "POST", "path": "/v2/translate", "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    statuses = []

    async def note(message):
        statuses.append(message.get("status"))

    asyncio.run(client.app(scope, receive, note))
    assert statuses[0] == 499


def test_metrics_count_and_neither_they_nor_the_log_have_texts(made, caplog):
    caplog.set_level(logging.INFO)
    client, _ = made()
    secret = "Confidential"
    client.post("/v2/translate", headers=HEADER, json=WISH | {"text": [secret, secret]})
    client.post("/v2/translate", headers=HEADER, json={"text": secret, "target_lang": secret})
    client.get(f"/{secret}", params={"q": secret})
    metrics = client.get("/metrics", headers=HEADER).text

    def value(pattern):
        return float(re.search(rf"^keras_mt_{pattern} (\S+)$", metrics, re.MULTILINE)[1])

    assert value('requests_total{route="/v2/translate",status="200"}') == 1
    assert value('requests_total{route="/v2/translate",status="400"}') == 1
    assert value('latency_seconds_count{route="/v2/translate"}') == 2
    assert value('texts_total{model="en-de"}') == 2
    assert value('characters_total{model="en-de"}') == 2 * len(secret)
    logged = [vars(record) for record in caplog.records if record.name == "keras_mt.serving"]
    assert [record["status"] for record in logged] == [200, 400, 404, 200]
    assert logged[0]["user"] == f"name of {KEY}"
    for found in (metrics, str(logged)):
        assert secret not in found and secret.upper() not in found and f"'{KEY}'" not in found


def test_the_description_has_the_paths_that_there_are(made):
    client, _ = made()
    description = client.get("/openapi.json", headers=HEADER).json()
    assert description["openapi"].startswith("3.1") and "/v2/translate" in description["paths"]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            named = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
            assert named == re.findall(r"{(\w+)}", path)
            answer = client.request(method, path.replace("{", "").replace("}", ""))
            public = "security" not in operation
            assert (answer.status_code in (200, 404)) == public, path
