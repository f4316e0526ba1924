import json
import re

import numpy as np
import pytest
from command import keras_mt
from conftest import ROOT

pytestmark = pytest.mark.usefixtures("load_once")


def test_align_writes_the_attention_of_each_pair(
    eager, run_dir, load, corpus, tmp_path, monkeypatch
):
    files = [tmp_path / "sources", tmp_path / "targets"]
    for file, language in zip(files, ("pt", "en"), strict=True):
        lines = (corpus / f"{language}.test.txt").read_text(encoding="utf-8").splitlines()
        file.write_text("\n".join(lines[:3]), encoding="utf-8")
    sources, targets = (file.read_text(encoding="utf-8").splitlines() for file in files)
    rows = keras_mt("align", run_dir, *files).stdout.splitlines()
    assert len(rows) == len(sources)
    translator = load()
    for line, *pair in zip(map(json.loads, rows), sources, targets, strict=True):
        pieces, target_pieces, attention = translator.align(*pair)
        assert (line["source"], line["target"]) == (pieces, target_pieces)
        for row, weights in zip(line["attention"], attention, strict=True):
            assert row == pytest.approx(list(weights), abs=1e-3)
    (tmp_path / "a").write_bytes(b"Ol\xc3\xa1!\n" + b"palavra " * 100)
    (tmp_path / "b").write_bytes(b"Hello!\nword\n")
    result = keras_mt("align", run_dir, tmp_path / "a", tmp_path / "b")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first["target"][-1] == "</s>" and "limit" in second["error"]
    assert "line 2 skipped" in result.stderr
    # Its own translation is of a text cut in pieces.
    monkeypatch.setattr("keras_mt.cli.align.load_translator", lambda *_: load(max_length=6))
    first, second = map(json.loads, keras_mt("align", run_dir, tmp_path / "a").stdout.splitlines())
    assert first["target"][-1] == "</s>" and second["source"].count("</s>") > 2


def test_pharaoh_writes_the_links_of_words(eager, run_dir, load, tmp_path):
    pairs = [("O livro está aqui.", "The book is here."), ("Olá!", ""), ("Olá!", "Hello!")]
    files = [tmp_path / "sources", tmp_path / "targets"]
    for side, file in enumerate(files):
        text = "".join(pair[side] + "\n" for pair in pairs) + "palavra " * 100 * side + "\n"
        file.write_text(text, encoding="utf-8")
    result = keras_mt("align", run_dir, *files, "--pharaoh")
    *lines, blank = result.stdout.split("\n")[:-1]
    translator = load()
    for line, pair in zip(lines, pairs, strict=True):
        links = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert links == [tuple(link) for link in translator.align_words(*pair).tolist()]
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
    both = translator.align_words("Olá!\nO livro.", "Hello!\nThe book.")
    first = translator.align_words("Olá!", "Hello!")
    second = translator.align_words("O livro.", "The book.")
    assert both.tolist() == [*first.tolist(), *(second + 1).tolist()]
    assert (
        "--pharaoh needs TARGET"
        in keras_mt("align", run_dir, files[0], "--pharaoh", check=False).stderr
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["exported_whole", "exported_litert"])
def test_exports_score_and_align_as_their_run(kind, request, eager, translator, tmp_path):
    files = tmp_path / "sources", tmp_path / "targets"
    pairs = [
        ("O livro está aqui.", "The book is here."),
        ("palavra " * 20, "word"),
        ("Olá!", "Hello!"),
    ]
    for side, file in enumerate(files):
        file.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    export = request.getfixturevalue(kind)
    scores = keras_mt("score", export, *files)
    log_probs = [line.split("\t")[0] for line in scores.stdout.splitlines()]
    for found, pair in zip([log_probs[0], log_probs[2]], [pairs[0], pairs[2]], strict=True):
        assert float(found) == pytest.approx(translator.score(*pair).log_prob, abs=1e-3)
    links = keras_mt("align", export, *files, "--pharaoh")
    for found, pair in zip(links.stdout.splitlines()[::2], pairs[::2], strict=True):
        assert found == " ".join(f"{i}-{j}" for i, j in translator.align_words(*pair))
    assert log_probs[1] == links.stdout.splitlines()[1] == ""
    assert all("line 2 skipped" in each.stderr for each in (scores, links))
    refused = keras_mt("align", export, *files, "--ensemble", export, exit_code=1)
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
