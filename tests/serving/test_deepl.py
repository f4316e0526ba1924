"""The interface of DeepL, as DeepL's own client uses it."""

import io
import re
import time
import zipfile

import deepl
import pytest
import requests
from served import FULL, KEY, MODEL, Capitals, serving_here

from keras_mt.documents import translate_files
from keras_mt.serving.glossaries import Glossaries
from keras_mt.text import Glossary
from keras_mt.translation.exported import ExportedTranslator

DOGS = "A dog runs. A dog sleeps."


def client(server, key=KEY):
    return deepl.DeepLClient(key, server_url=server.url)


@pytest.fixture(scope="module")
def translator(server):
    return client(server)


@pytest.fixture(scope="module")
def model():
    return ExportedTranslator(MODEL)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """The client neither repeats what failed nor waits for documents."""
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.05)))


def post(server, path, **arguments):
    headers = {"Authorization": f"DeepL-Auth-Key {KEY}"}
    return requests.post(f"{server.url}/v2/{path}", headers=headers, **arguments)


def test_texts_are_translated_as_by_the_model(translator, model):
    texts = ["A man sleeps.", DOGS, "Two children play.\n\nA cat sits on a table."]
    found = translator.translate_text(texts, source_lang="EN", target_lang="DE")
    assert [each.text for each in found] == model(texts)
    assert {each.detected_source_lang for each in found} == {"EN"}
    assert [each.billed_characters for each in found] == [*map(len, texts)]


def test_a_source_that_is_not_named_is_found(tmp_path):
    pools = Capitals("en", "fr"), Capitals("de", "fr"), Capitals("en", "pt-BR")
    with serving_here(tmp_path, *pools) as server:
        texts = ["The dog runs through the park.", "Der Hund rennt durch den Park."]
        found = client(server).translate_text(texts, target_lang="fr")
        assert [each.detected_source_lang for each in found] == ["EN", "DE"]
        assert [[job.text for job in pool.calls[0]] for pool in pools[:2]] == [[x] for x in texts]
        # German in the tags does not count, and a target leaves English alone.
        html = '<a href="der-hund-und-die-katze.de">The dog runs.</a>'
        found = client(server).translate_text(html, target_lang="fr", tag_handling="html")
        assert found.detected_source_lang == "EN"
        assert (
            client(server).translate_text(texts[1], target_lang="PT-BR").detected_source_lang
            == "EN"
        )


def test_markup_stays_in_its_place(translator):
    text = 'A <b class="x">man</b> sleeps and a <x id="1"/>dog runs &amp; barks.'
    for kind in "html", "xml":
        found = translator.translate_text(text, target_lang="DE", tag_handling=kind).text
        assert '<b class="x">Mann</b>' in found and '<x id="1"/>Hund' in found
    found = translator.translate_text(
        "<p>A man sleeps.</p><p>A cat.</p>", target_lang="DE", tag_handling="html"
    )
    assert found.text == "<p>Ein Mann schläft.</p><p>Eine Katze.</p>"


@pytest.mark.parametrize(
    ("split", "jobs"),
    [
        ("1", ["One.", "Two", "lines."]),
        ("0", ["One. Two", "lines."]),
        ("nonewlines", ["One.", "Two lines."]),
    ],
)
def test_sentences_are_split_as_is_asked(tmp_path, split, jobs):
    pool = Capitals()
    with serving_here(tmp_path, pool) as server:
        client(server).translate_text("One. Two\nlines.", target_lang="DE", split_sentences=split)
    assert [job.text for job in pool.calls[0]] == jobs


def test_forms_queries_and_what_is_ignored(server):
    fields = {"text": ["A man sleeps.", "A cat."], "target_lang": "de", "auth_key": KEY}
    rows = post(server, "translate", json=fields).json()
    assert [row["text"] for row in rows["translations"]] == ["Ein Mann schläft.", "Eine Katze."]
    assert post(server, "translate", data=fields).json() == rows
    assert requests.get(f"{server.url}/v2/translate", fields).json() == rows
    assert post(server, "usage").json()["character_count"] >= len("A man sleeps.A cat.")
    more = {"context": "Animals.", "formality": "more", "x\r\ny": 1, "preserve_formatting": True}
    answer = post(server, "translate", json=fields | more)
    assert answer.json() == rows
    assert answer.headers["X-Ignored-Parameters"] == "context, formality, preserve_formatting"
    assert "X-Ignored-Parameters" not in post(server, "translate", json=fields).headers


def test_languages_and_usage(translator):
    assert [(x.code, x.name) for x in translator.get_source_languages()] == [("EN", "English")]
    [german] = translator.get_target_languages()
    assert (german.code, german.name, german.supports_formality) == ("DE", "German", False)
    before = translator.get_usage()
    assert before.character.valid and not before.any_limit_reached
    translator.translate_text(DOGS, target_lang="DE")
    assert translator.get_usage().character.count == before.character.count + len(DOGS)


def test_glossaries_are_made_used_listed_and_removed(translator):
    entries = {"dog": "Dackel", "cat": "Mieze"}
    made = translator.create_glossary("pets", "EN", "DE", entries)
    assert (made.name, made.source_lang, made.target_lang) == ("pets", "EN", "DE")
    assert made.ready and made.entry_count == 2
    assert translator.get_glossary_entries(made) == entries
    assert vars(translator.get_glossary(made.glossary_id)) == vars(made)
    assert [x.name for x in translator.list_glossaries()] == ["dogs", "pets"]
    found = translator.translate_text_with_glossary(["A dog runs.", "A cat runs."], made)
    assert ["Dackel" in found[0].text, "Mieze" in found[1].text] == [True, True]
    pairs = [(x.source_lang, x.target_lang) for x in translator.get_glossary_languages()]
    assert pairs == [("EN", "DE")]
    translator.delete_glossary(made)
    for use in translator.get_glossary, translator.get_glossary_entries, translator.delete_glossary:
        with pytest.raises(deepl.GlossaryNotFoundException):
            use(made.glossary_id)


def test_a_glossary_of_the_server_fits_and_stays(translator, server):
    text = translator.translate_text(
        "A dog.", source_lang="EN", target_lang="DE", glossary="dogs"
    ).text
    assert "Köter" in text
    assert translator.get_glossary_entries("dogs") == {"dog": "Köter"}
    with pytest.raises(deepl.AuthorizationException, match="the server's own"):
        translator.delete_glossary("dogs")
    # And one of another user does not exist.
    made = translator.create_glossary("mine", "EN", "DE", {"dog": "Dackel"})
    with pytest.raises(deepl.GlossaryNotFoundException):
        client(server, "another-key").get_glossary(made.glossary_id)
    translator.delete_glossary(made)


def test_entries_in_csv(translator):
    made = translator.create_glossary_from_csv(
        "csv", "EN", "DE", '"big, dog","Hund, groß",en,de\r\ncat,Mieze\r\n'
    )
    assert translator.get_glossary_entries(made) == {"big, dog": "Hund, groß", "cat": "Mieze"}
    translator.delete_glossary(made)


@pytest.mark.parametrize("entries", ["dog", "dog\tHund\tKöter", "\tHund", "dog\tHund\ndog\tKöter"])
def test_entries_that_are_none(server, entries):
    fields = {"name": "x", "source_lang": "en", "target_lang": "de", "entries_format": "tsv"}
    answer = post(server, "glossaries", json={**fields, "entries": entries})
    assert answer.status_code == 400 and answer.json()["message"].startswith("entries: ")


def test_glossaries_know_no_countries(tmp_path):
    with serving_here(tmp_path, Capitals("en", "pt-BR"), Capitals("en", "fr")) as server:
        translator = client(server)
        made = translator.create_glossary("x", "EN-US", "PT-PT", {"dog": "cão"})
        assert (made.source_lang, made.target_lang) == ("EN", "PT")
        translator.translate_text("a", source_lang="EN", target_lang="PT-BR", glossary=made)
        with pytest.raises(deepl.DeepLException, match="the glossary is for EN-PT, not EN-FR"):
            translator.translate_text(
                "a", source_lang="EN", target_lang="FR", glossary=made.glossary_id
            )


def docx(*paragraphs):
    """The bytes of a document as small as one may be."""
    types, main = "http://schemas.openxmlformats.org", "wordprocessingml.document.main+xml"
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{types}/package/2006/content-types"><Override PartName="/document.xml" '
            f'ContentType="application/vnd.openxmlformats-officedocument.{main}"/></Types>',
        )
        word = f"{types}/wordprocessingml/2006/main"
        file.writestr("document.xml", f'<w:document xmlns:w="{word}">{body}</w:document>')
    return written.getvalue()


def test_documents_come_back_as_from_the_command_and_are_deleted(translator, model, tmp_path):
    page = f"<html><body><h1>A man sleeps.</h1><p>{DOGS} A <i>cat</i> sits.</p></body></html>"
    (tmp_path / "page.html").write_text(page)
    (tmp_path / "lines.txt").write_text(f"{DOGS}\n\nA man sleeps.\n")
    (tmp_path / "letter.docx").write_bytes(docx(DOGS, "A man sleeps."))
    files = [*tmp_path.iterdir()]
    terms, known = Glossary({"dog": "Köter"}), tmp_path / "known"

    def translate(texts):
        return [found[0].text for found in model.hypotheses(texts, glossary=terms)], {}

    translate_files(translate, files, known, {}, target_language="de")
    for file in files:
        out = tmp_path / f"out{file.suffix}"
        pair = {"source_lang": "EN", "target_lang": "DE", "glossary": "dogs"}
        status = translator.translate_document_from_filepath(file, out, **pair)
        assert status.done and status.billed_characters > len(DOGS)
        assert out.read_bytes() == (known / file.name).read_bytes(), file.name
    assert "Köter" in (tmp_path / "out.txt").read_text("utf-8")


def test_a_document_is_fetched_once(translator):
    handle = translator.translate_document_upload("A dog.", filename="a.txt", target_lang="DE")
    assert translator.translate_document_wait_until_done(handle).billed_characters == 6
    translator.translate_document_download(handle, io.BytesIO())
    for call in translator.translate_document_download, translator.translate_document_get_status:
        with pytest.raises(deepl.DeepLException, match="Not found"):
            call(handle)


def test_a_document_keeps_nobody_waiting(translator):
    lines = "".join(f"{i} men play with a dog in the park.\n" for i in range(60))
    handle = translator.translate_document_upload(lines, filename="a.txt", target_lang="DE")
    translator.translate_text("A man sleeps.", target_lang="DE")
    status = translator.translate_document_get_status(handle)
    assert status.status == deepl.DocumentStatus.Status.TRANSLATING
    assert translator.translate_document_wait_until_done(handle).done
    translator.translate_document_download(handle, io.BytesIO())


def test_documents_need_their_key_and_a_known_format(translator, server):
    handle = translator.translate_document_upload(b"A dog.\n", filename="a.txt", target_lang="DE")
    for key in "", handle.document_key[:-1] + "x", "ü":
        answer = post(server, f"document/{handle.document_id}/result", json={"document_key": key})
        assert answer.status_code == 404
    for name, options in (
        ("a.pdf", {}),
        ("a.txt.gz", {}),
        ("../../a", {}),
        ("a.txt", {"output_format": "docx"}),
    ):
        with pytest.raises(deepl.DeepLException, match="Bad request"):
            translator.translate_document_upload(
                b"A dog.\n", filename=name, target_lang="DE", **options
            )
    assert post(server, "document", data={"target_lang": "DE", "file": "a.txt"}).status_code == 400
    assert translator.translate_document_wait_until_done(handle).done
    translator.translate_document_download(handle, io.BytesIO())


def test_documents_that_fail_say_why_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_mt.documents.docx.MAX_UNPACKED", 1 << 20)
    bomb = docx(" " * (2 << 20))
    assert len(bomb) < 10_000
    with serving_here(tmp_path, Capitals()) as server:
        for name, data in ("a.docx", bomb), ("a.docx", b"no zip"), ("a.srt", b"\0"):
            handle = client(server).translate_document_upload(data, filename=name, target_lang="DE")
            status = client(server).translate_document_wait_until_done(handle)
            assert not status.ok and str(tmp_path) not in status.error_message, status.error_message
            assert handle.document_id not in status.error_message
            with pytest.raises(deepl.DeepLException, match="Bad request"):
                client(server).translate_document_download(handle)
        assert not [*tmp_path.iterdir()]
        handle = client(server).translate_document_upload(
            docx("refuse this", "a dog"), filename="a.DOCX", target_lang="DE"
        )
        status = client(server).translate_document_wait_until_done(handle)
        assert status.done and status.error_message.startswith("1 texts were refused")
        result = io.BytesIO()
        client(server).translate_document_download(handle, result)
        found = zipfile.ZipFile(result).read("document.xml").decode()
        assert re.findall(r"<w:t\b[^>]*>([^<]+)", found) == ["refuse this", "A DOG"]
        assert not [*tmp_path.iterdir()]


def test_a_document_is_private_and_its_texts_come_in_parts(tmp_path):
    pool = Capitals(held=True)
    with serving_here(tmp_path, pool) as server:
        lines = "".join(f"line {i}\n" for i in range(250))
        handle = client(server).translate_document_upload(lines, filename="a.txt", target_lang="DE")
        with pytest.raises(deepl.DocumentNotReadyException):
            client(server).translate_document_download(handle)
        [folder] = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o77 == 0
        pool.held = False
        client(server).translate_document_wait_until_done(handle)
        assert [len(call) for call in pool.calls] == [100, 100, 50]
        assert not (folder / "file.txt").exists()
        [written] = folder.rglob("*.txt")
        assert written.read_text() == lines.upper()


def test_nobody_fills_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_mt.serving.files._MOST", 2)
    monkeypatch.setattr("keras_mt.serving.files._KEPT", 0.1)
    pool = Capitals(held=True)
    with serving_here(tmp_path, pool) as server:
        for _ in range(2):
            client(server).translate_document_upload("a", filename="a.txt", target_lang="DE")
        with pytest.raises(deepl.TooManyRequestsException, match="fetch those that are done"):
            client(server).translate_document_upload("a", filename="a.txt", target_lang="DE")
        pool.held = False
        deadline = time.monotonic() + 60
        while [*tmp_path.iterdir()]:
            assert time.monotonic() < deadline, "what nobody fetches stays"
            time.sleep(0.05)


def test_errors_arrive_as_those_of_the_client(tmp_path):
    pool = Capitals()
    limits = {"max_texts": 2, "max_characters": 50, "max_body": 1000, "max_file": 2000}
    with serving_here(tmp_path, pool, glossaries=Glossaries(maximum=0), **limits) as server:
        translator = client(server)

        def fails(kind, status, match, *texts, **options):
            with pytest.raises(kind, match=match) as error:
                translator.translate_text(texts or "a", **{"target_lang": "DE", **options})
            assert error.value.http_status_code == status

        fails(
            deepl.DeepLException,
            400,
            "target language 'FR' is not supported: it may be de",
            target_lang="FR",
        )
        fails(deepl.DeepLException, 400, "source language 'XX'", source_lang="XX")
        fails(deepl.DeepLException, 400, "split_sentences", split_sentences="2")
        fails(deepl.DeepLException, 400, "tag_handling", tag_handling="tex")
        fails(deepl.DeepLException, 400, "glossary_ids", source_lang="EN", glossary_ids=["a", "b"])
        fails(
            deepl.DeepLException,
            400,
            "needs source_lang",
            extra_body_parameters={"glossary_id": "a"},
        )
        fails(deepl.DeepLException, 404, "no glossary 'a'", source_lang="EN", glossary="a")
        fails(deepl.DeepLException, 400, "is refused", "refuse this")
        fails(deepl.DeepLException, 413, "may have 2 texts, not 3", "a", "b", "c")
        fails(deepl.DeepLException, 413, "may have 50 characters, not 51", "a" * 51)
        fails(deepl.DeepLException, 413, "may have 1,000 bytes", context="a" * 1000)
        with pytest.raises(deepl.DeepLException, match="may have 2,000 bytes"):
            translator.translate_document_upload("a" * 2000, filename="a.txt", target_lang="DE")
        with pytest.raises(deepl.QuotaExceededException, match="0 glossaries"):
            translator.create_glossary("x", "EN", "DE", {"dog": "Hund"})
        with pytest.raises(deepl.DeepLException, match="source language 'DE'"):
            translator.create_glossary("x", "DE", "DE", {"dog": "Hund"})
        with pytest.raises(deepl.AuthorizationException, match="the API key is wrong"):
            client(server, "wrong").get_usage()
        answer = requests.get(f"{server.url}/v2/translate", {"text": "a" * 40_000})
        assert answer.status_code == 414 and "send a body" in answer.json()["message"]
        pool.error = FULL
        fails(deepl.TooManyRequestsException, 429, "try again in 7 s")
        assert (
            post(server, "translate", data={"text": "a", "target_lang": "de"}).headers[
                "Retry-After"
            ]
            == "7"
        )
        pool.error = RuntimeError("a secret")
        fails(deepl.DeepLException, 500, "there is an error in the server")
        server.service.is_ending = True
        fails(deepl.DeepLException, 503, "the server ends")
