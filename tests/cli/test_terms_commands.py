"""Terms and kept spans by every command, which give the same: models are stand-ins."""

import html
import json

import pytest
from command import keras_mt
from word_by_word import WordByWord

TEXT = "the big dog sleeps at https://x.org/a ."
FOUND = "der big Köter schläft bei https://x.org/a ."


@pytest.fixture
def options(monkeypatch, tmp_path):
    """Options of every command, whose translators are stand-ins."""
    monkeypatch.setattr(
        "keras_mt.translation.Translator.load", lambda *_, **options: WordByWord(**options)
    )
    path = tmp_path / "terms.tsv"
    path.write_text("dog\tKöter\nbig\n", encoding="utf-8")
    return "--glossary", path, "--keep", "url"


def test_every_command_gives_the_same(options, run_dir, tmp_path):
    translated = keras_mt("translate", run_dir, *options, stdin=TEXT.encode()).stdout
    assert translated == FOUND + "\n"
    result = keras_mt("translate", run_dir, *options, "--n-best", 2, "--json", stdin=TEXT.encode())
    (found,) = json.loads(result.stdout)["translations"]
    assert found["text"] == FOUND
    assert found["placed"][1] == {"source": "dog", "target": "Köter", "warning": None}
    marked = TEXT.replace("big dog", "<b>big dog</b>").encode()
    result = keras_mt("translate", run_dir, *options, "--markup", "html", stdin=marked)
    assert result.stdout == FOUND.replace("big Köter", "<b>big Köter</b>") + "\n"
    texts, page, pairs = (tmp_path / f"a.{suffix}" for suffix in ("txt", "html", "tsv"))
    texts.write_text(TEXT)
    page.write_text(f"<p>{TEXT}</p>")
    pairs.write_text(f"{TEXT}\t{FOUND}", encoding="utf-8")
    keras_mt("translate-files", run_dir, tmp_path / "out", texts, page, *options)
    assert (tmp_path / "out" / "a.txt").read_text(encoding="utf-8").strip() == FOUND
    assert html.unescape((tmp_path / "out" / "a.html").read_text()) == f"<p>{FOUND}</p>"
    data = "--data", pairs, "--source", "en", "--target", "de"
    result = keras_mt("evaluate", run_dir, *options, *data)
    scores = json.loads(result.stdout.splitlines()[-1])
    assert scores["bleu"] == 100 and scores["terms"] == {"occurrences": 2, "share": 1.0}
