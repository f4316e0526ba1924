"""The interface of LibreTranslate, as its client and its documentation have it."""

import io
import json
import re
import urllib.error

import pytest
import requests
from libretranslatepy import LibreTranslateAPI
from served import FULL, KEY, MODEL, Capitals, serving_here

from keras_mt.serving import files
from keras_mt.serving.glossaries import Glossaries
from keras_mt.serving.worker import Answer
from keras_mt.translation.exported import ExportedTranslator
from keras_mt.translation.results import Hypothesis

DOG = "A dog runs."


@pytest.fixture(scope="module")
def client(server):
    return LibreTranslateAPI(server.url, KEY)


def post(server, path="translate", **fields):
    return requests.post(f"{server.url}/{path}", json={"api_key": KEY, "target": "de"} | fields)


def send(server, name, data, **fields):
    fields = {"source": "en", "target": "de", "api_key": KEY} | fields
    file = {"file": (name, io.BytesIO(data))}
    return requests.post(f"{server.url}/translate_file", data=fields, files=file)


def test_texts_are_translated_as_by_the_model(client):
    model = ExportedTranslator(MODEL)
    for text in ("A man sleeps.", f"{DOG} A dog sleeps.\n\nTwo children play & laugh.", ""):
        assert client.translate(text, "en", "de") == model(text)


def test_languages_are_those_of_the_models_and_need_no_key(server):
    german = {"code": "de", "name": "German", "targets": []}
    assert sorted(LibreTranslateAPI(server.url).languages(), key=lambda row: row["code"]) == [
        german,
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    settings = requests.get(f"{server.url}/frontend/settings").json()
    assert settings["apiKeys"] is settings["keyRequired"] is True
    assert settings["charLimit"] == 100_000 and ".srt" in settings["supportedFilesFormat"]
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_languages_are_found(tmp_path):
    texts = {"en": "The dog runs through the park.", "de": "Der Hund rennt durch den Park."}
    with serving_here(tmp_path, Capitals("en", "fr"), Capitals("de", "fr")) as server:
        client = LibreTranslateAPI(server.url, KEY)
        for code, text in texts.items():
            best, *others = client.detect(text)
            assert best["language"] == code and 90 < best["confidence"] <= 100
            assert all(row["confidence"] < 10 for row in others)
            found = post(server, q=text, source="auto", target="fr").json()
            assert found == {"translatedText": text.upper(), "detectedLanguage": best}
        assert client.detect("")  # It has no language, and something is answered.
        found = post(server, q=[*texts.values()], source="auto", target="fr").json()
        assert [row["language"] for row in found["detectedLanguage"]] == [*texts]
        assert "detectedLanguage" not in post(server, q=DOG, source="en", target="fr").json()


def test_lists_forms_and_markup(server):
    german = ["Ein Mann schläft.", "Eine Katze."]
    fields = {"q": ["A man sleeps.", "A cat."], "source": "en"}
    assert post(server, **fields).json() == {"translatedText": german}
    form = fields | {"target": "de", "api_key": KEY}
    assert requests.post(f"{server.url}/translate", form).json() == {"translatedText": german}
    assert post(server, q=fields["q"][:1], source="en").json() == {"translatedText": german[:1]}
    assert post(server, q=[], source="en").json() == {"translatedText": []}
    html = '<p class="x">A man <b>sleeps</b>.</p>'
    found = post(server, q=html, source="en", format="html").json()["translatedText"]
    assert re.fullmatch('<p class="x">Ein Mann <b>schläft</b>.</p>', found)


class Two(Capitals):
    """A model with two translations of each text, which says of the best what it doubts."""

    def _answer(self, job):
        best = Hypothesis(job.text.upper(), 0.0, warnings=("loop",) if job.detailed else ())
        links = ((0, 1), (1, 0)) if job.detailed else ()
        return Answer([best, Hypothesis(job.text.title(), -1.0)], links)


def test_alternatives_are_as_many_as_there_are(tmp_path):
    with serving_here(tmp_path, Two()) as server:
        for number, found in ((1, ["A Cat"]), (10**30, ["A Cat"])):
            answer = post(server, q="a cat", alternatives=number).json()
            assert (answer["translatedText"], answer["alternatives"]) == ("A CAT", found)
        answer = post(server, q=["a cat", "a dog"], alternatives=3).json()
        assert answer["alternatives"] == [["A Cat"], ["A Dog"]]
        assert "alternatives" not in post(server, q="a cat", alternatives=0).json()


def test_details_are_places_in_the_texts(tmp_path):
    with serving_here(tmp_path, Two()) as server:
        text = "𝄞 cat.\nA dog."
        answer = post(server, q=text, details=True).json()
        links, found = answer["details"]["links"], answer["translatedText"]
        pairs = [(text[a:b], found[c:d]) for a, b, c, d in links]
        assert pairs == [("𝄞", "CAT."), ("cat.", "𝄞"), ("A", "DOG."), ("dog.", "A")]
        warnings = answer["details"]["warnings"]
        assert [(found[a:b], kind) for a, b, kind in warnings] == [
            ("𝄞 CAT.", "loop"),
            ("A DOG.", "loop"),
        ]
        assert "details" not in post(server, q=text, details=True, format="html").json()
        assert "details" not in post(server, q=[text], details=True).json()
        assert "details" not in post(server, q=text).json()


def test_details_of_a_model_are_its_own(server):
    answer = post(server, q="A man sleeps.", source="en", details=True).json()
    assert answer["translatedText"] == "Ein Mann schläft."
    assert [2, 5, 4, 8] in answer["details"]["links"] and answer["details"]["warnings"] == []


def test_glossaries_are_named_and_used(server, tmp_path):
    headers = {"Authorization": f"Bearer {KEY}"}
    rows = requests.get(f"{server.url}/glossaries", headers=headers).json()
    assert {"id": "dogs", "name": "dogs", "source": "", "target": ""} in rows
    assert requests.get(f"{server.url}/glossaries").status_code == 403
    found = post(server, q=DOG, source="en", glossary="dogs").json()["translatedText"]
    assert "Köter" in found
    glossaries = Glossaries()
    id = glossaries.add("n", "en", "fr", [["a", "b"]], "tester").id
    with serving_here(tmp_path, Capitals(), glossaries=glossaries) as server:
        answer = post(server, q=DOG, glossary=id)
        assert answer.status_code == 400 and "EN-FR" in answer.json()["error"]
        assert post(server, q=DOG, glossary="none").status_code == 404


def test_wrong_requests_are_told_what_is_wrong(server, client):
    for fields, message in (
        ({"source": "en"}, "q.*required"),
        ({"q": DOG, "source": "xx"}, "'xx' is not supported: it may be en"),
        ({"q": DOG, "target": "fr"}, "'fr' is not supported: it may be de"),
        ({"q": DOG, "format": "pdf"}, "format"),
        ({"q": DOG, "alternatives": -1}, "alternatives"),
        ({"q": "half \ud800"}, "the body: invalid JSON: unexpected end of hex escape"),
    ):
        answer = post(server, **fields)
        assert answer.status_code == 400, fields
        assert re.search(message, answer.json()["error"]), answer.text
    with pytest.raises(urllib.error.HTTPError) as error:
        client.translate(DOG, "en", "xx")
    assert error.value.code == 400 and "'xx'" in json.load(error.value)["error"]


def test_keys(server):
    for key, message in ((None, "is needed"), ("wrong", "is wrong")):
        client = LibreTranslateAPI(server.url, key)
        for call in (lambda c: c.translate(DOG, "en", "de"), lambda c: c.detect(DOG)):
            with pytest.raises(urllib.error.HTTPError) as error:
                call(client)
            assert error.value.code == 403 and message in json.load(error.value)["error"]


def test_limits(tmp_path):
    pool = Capitals()
    with serving_here(tmp_path, pool, max_texts=2, max_characters=20, max_body=1000) as server:
        for q in (["a"] * 3, "a" * 21, "a" * 2000):
            assert post(server, q=q).status_code == 413
            assert not pool.calls
        pool.error = FULL
        answer = post(server, q="a")
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
        assert "waiting" in answer.json()["error"]


def test_a_file_is_fetched_once(server):
    url = send(server, "a.srt", b"1\n00:00:01,000 --> 00:00:02,000\nA man sleeps.\n").json()
    url = url["translatedFileUrl"]
    assert url.startswith(server.url)
    assert requests.head(url).status_code == 405  # It takes nothing.
    answer = requests.get(url)
    assert 'filename="translated.srt"' in answer.headers["Content-Disposition"]
    assert "Ein Mann schläft." in answer.content.decode()
    assert requests.get(url).status_code == 404


def test_files_that_fail_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MOST", 2)
    with serving_here(tmp_path, Capitals()) as server:
        for _ in range(3):  # More than a user may have here.
            assert send(server, "a.docx", b"no zip").status_code == 400
        answer = send(server, "a.exe", b"a")
        assert answer.status_code == 400 and ".docx" in answer.json()["error"]
        assert post(server, "translate_file", file="a.txt").status_code == 400
        assert send(server, "a.txt", b"a", api_key="wrong").status_code == 403
        assert not [*tmp_path.iterdir()]
        found = send(server, "../../a.txt", b"a dog", source="auto").json()["translatedFileUrl"]
        assert requests.get(found).content == b"A DOG\n"
        assert requests.get(f"{server.url}/download_file/..%2fa.txt").status_code == 404
