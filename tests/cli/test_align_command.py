import json
import re

import numpy as np
import pytest
from command import keras_mt
from conftest import ROOT, needed

from keras_mt import ExportedTranslator

LITERT = ROOT / "saved_models" / "multi30k_en_de_litert"
pytestmark = pytest.mark.usefixtures("load_once")


def test_align_writes_the_attention_of_each_pair(eager, run_dir, load, tmp_path, monkeypatch):
    sources, targets = ["O livro.", "Olá!"], ["The book.", "Hello!"]
    files = [tmp_path / "sources", tmp_path / "targets"]
    files[0].write_text("\n".join([*sources, "palavra " * 40]), encoding="utf-8")
    files[1].write_text("\n".join([*targets, "word"]))
    result = keras_mt("align", run_dir, *files)
    *rows, refused = map(json.loads, result.stdout.splitlines())
    for line, found in zip(rows, load().align(sources, targets), strict=True):
        pieces, target_pieces, attention = found
        assert (line["source"], line["target"]) == (pieces, target_pieces)
        assert target_pieces[-1] == "</s>"
        for row, weights in zip(line["attention"], attention, strict=True):
            assert row == pytest.approx(list(weights), abs=1e-3)
    assert "limit" in refused["error"] and "line 3 skipped" in result.stderr
    # Its own translation is of a text cut in pieces.
    monkeypatch.setattr("keras_mt.cli.align.load_translator", lambda *_: load(max_length=3))
    *_, last = map(json.loads, keras_mt("align", run_dir, files[0]).stdout.splitlines())
    assert last["source"].count("</s>") > 1


def test_pharaoh_writes_the_links_of_words(eager, run_dir, load, tmp_path):
    pairs = [("O livro está aqui.", "The book is here."), ("Olá!", ""), ("Olá!", "Hello!")]
    files = [tmp_path / "sources", tmp_path / "targets"]
    for side, file in enumerate(files):
        text = "".join(pair[side] + "\n" for pair in pairs) + "palavra " * 100 * side + "\n"
        file.write_text(text, encoding="utf-8")
    result = keras_mt("align", run_dir, *files, "--pharaoh")
    *lines, blank = result.stdout.split("\n")[:-1]
    translator = load()
    more = [("O livro.", "The book."), ("Olá!\nO livro.", "Hello!\nThe book.")]
    *found, book, both = translator.align_words(*map(list, zip(*pairs, *more, strict=True)))
    for line, links in zip(lines, found, strict=True):
        assert line == " ".join(f"{i}-{j}" for i, j in links)
    *sides, attention = translator.align(*pairs[0])
    words = [  # Of each piece; the marks at the end, and a space alone, are of none.
        ["".join(side[: i + 1]).count("▁") - 1 if any(map(str.isalnum, piece)) else None
         for i, piece in enumerate(side[:-1])]
        for side in sides
    ]  # fmt: skip
    expected = []
    for j in range(4):
        rows = [attention[k] for k, word in enumerate(words[1]) if word == j]
        on = [
            np.mean([sum(row[k] for k, word in enumerate(words[0]) if word == i) for row in rows])
            for i in range(4)
        ]
        expected += [(int(np.argmax(on)), j)] if max(on) > 0.25 else []
    assert lines[0] == " ".join(f"{i}-{j}" for i, j in sorted(expected)) and expected
    assert lines[1] == blank == "" and lines[2] == "0-0"
    assert "line 4 skipped" in result.stderr and "limit" in result.stderr
    assert both.tolist() == [*found[2].tolist(), *(book + 1).tolist()]
    refused = keras_mt("align", run_dir, files[0], "--pharaoh", exit_code=2)
    assert "--pharaoh needs TARGET" in refused.stderr


def test_an_export_scores_and_aligns(tmp_path):
    needed("ai_edge_litert")
    pairs = [("A dog.", "Ein Hund."), ("word " * 300, "Wort"), ("Two dogs.", "Zwei Hunde.")]
    files = tmp_path / "sources", tmp_path / "targets"
    for side, file in enumerate(files):
        file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    export = ExportedTranslator(LITERT)
    fine = [list(side) for side in zip(*pairs[::2], strict=True)]
    scores = keras_mt("score", LITERT, *files)
    log_probs = [line.split("\t")[0] for line in scores.stdout.splitlines()]
    for found, score in zip(log_probs[::2], export.score(*fine), strict=True):
        assert float(found) == pytest.approx(score.log_prob, abs=1e-3)
    links = keras_mt("align", LITERT, *files, "--pharaoh")
    for found, expected in zip(
        links.stdout.splitlines()[::2], export.align_words(*fine), strict=True
    ):
        assert found == " ".join(f"{i}-{j}" for i, j in expected)
    assert log_probs[1] == links.stdout.splitlines()[1] == ""
    assert all("line 2 skipped" in each.stderr for each in (scores, links))
    refused = keras_mt("align", LITERT, *files, "--ensemble", LITERT, exit_code=1)
    assert "was exported with fixed options: give --ensemble to" in refused.stderr


@pytest.mark.long
def test_scores_and_alignments_are_as_the_chapter_shows(eager, tmp_path):
    chapter = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```json\n(.*?)^```$", chapter, flags=re.MULTILINE | re.DOTALL)
    for name, text in (("source", "A man sleeps."), ("target", "Ein Mann schläft.")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    run, files = (
        ROOT / "examples" / "multi30k" / "cased",
        (tmp_path / "source", tmp_path / "target"),
    )
    answers = (keras_mt("score", run, *files, "--json"), keras_mt("align", run, files[0]))
    number = r"-?\d+\.\d+"
    for block, answer in zip(shown, answers, strict=True):
        one, other = (json.dumps(json.loads(text)) for text in (block, answer.stdout))
        assert re.sub(number, "", one) == re.sub(number, "", other)
        one, other = ([float(each) for each in re.findall(number, text)] for text in (one, other))
        assert one == pytest.approx(other, abs=1e-3)
