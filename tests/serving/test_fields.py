"""What requests say, as programs send it."""

import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from keras_mt.serving.fields import Fields, read_fields


class Text(Fields):
    q: str


def read(body, kind="application/x-www-form-urlencoded"):
    async def receive():
        return {"type": "http.request", "body": body}

    headers = [(b"content-type", kind.encode())]
    scope = {"type": "http", "method": "POST", "query_string": b"", "headers": headers}
    return asyncio.run(read_fields(Request(scope, receive), Text)).q


def test_a_form_has_utf_8_escaped_or_as_curl_sends_it():
    assert read(b"q=est%C3%A1+a%C3%AD") == read("q=está aí".encode()) == "está aí"


def test_a_form_that_is_not_utf_8_is_refused():
    with pytest.raises(HTTPException, match="the form cannot be read"):
        read("q=está".encode("latin-1"))
