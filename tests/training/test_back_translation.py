import gzip
import itertools
import json
import signal

import pytest

from keras_mt.data import CorpusError, load_corpus, phrasebook
from keras_mt.training import back_translate, back_translation
from keras_mt.translation.results import Hypothesis, Results

# Sentences that are in no split of the corpus, with their translations.
PAIRS = dict(list(phrasebook.pairs("train"))[400:440])
LINES = [*PAIRS]


class Stub:
    """Translates by the table; the n-th time that it is called with a stop at n, it is stopped."""

    fingerprint = "stub"

    def __init__(self, table=PAIRS, stop=0):
        self.table, self.stop, self.calls = table, stop, []

    def hypotheses(self, texts):
        self.calls.append(texts)
        if len(self.calls) == self.stop:
            raise KeyboardInterrupt
        found = [self.table.get(text) for text in texts]
        results = [text if text is None else [Hypothesis(text, -len(text) / 100)] for text in found]
        return Results(results, {i: "why" for i, text in enumerate(found) if text is None})


@pytest.fixture
def made(corpus, tmp_path):
    """Back-translates lines; gives the pairs of the folder, and what was dropped by which rule."""
    numbers = itertools.count()

    def make(lines, translator=None, **options):
        file = tmp_path / "pt.txt"
        file.write_bytes(b"".join(x if isinstance(x, bytes) else x.encode() + b"\n" for x in lines))
        return run([file], translator or Stub(), **options)

    def run(files, translator, output=None, data=corpus, **options):
        report = []
        output = output or tmp_path / f"out{next(numbers)}"
        options = {"report": report.append, **options}
        back_translate(translator, files, data, "en", "pt", output, **options)
        pairs = load_corpus(output, "en", "pt", "train").as_numpy_iterator()
        result = json.loads((output / "cleaning.json").read_text())
        dropped = {name: rule["dropped"] for name, rule in result["rules"].items()}
        for name, count in dropped.items():
            assert any(line.split()[:2] == [name, f"{count:,}"] for line in report)
        return [tuple(map(bytes.decode, pair)) for pair in pairs], {
            k: v for k, v in dropped.items() if v
        }

    make.files = run
    return make


def test_lines_become_targets_of_their_translations(made):
    pairs, dropped = made(LINES)
    assert pairs == [(PAIRS[line], line) for line in LINES] and not dropped


def test_what_is_dropped_is_accounted_for(made, corpus):
    held_out = (corpus / "pt.test.txt").read_text().splitlines()[3]
    lines = [
        LINES[0], "", LINES[1], LINES[0].upper(), f"<b>{LINES[2]}</b>", b"caf\xff.\n", held_out,
        held_out, "Palavra que falta.", LINES[3], "Uma cópia de três.", "Tudo em branco.", LINES[4],
    ]  # fmt: skip
    table = PAIRS | {"Uma cópia de três.": "uma cópia de três", "Tudo em branco.": " \n"}
    stub = Stub(table)
    pairs, dropped = made(lines, stub, min_score=-len(PAIRS[LINES[3]]) / 100 + 1e-6)
    expected = {
        "empty": 2, "copy": 1, "markup": 2, "duplicate": 1, "held_out": 2, "refused": 1,
    }  # fmt: skip
    scored = [
        line
        for line in (LINES[0], LINES[1], LINES[3], LINES[4])
        if len(PAIRS[line]) < len(PAIRS[LINES[3]])
    ]
    assert pairs == [(PAIRS[line], line) for line in scored]
    assert dropped == expected | {"score": 4 - len(scored)}
    # What is dropped for itself is not translated.
    assert not {"", held_out, LINES[0].upper(), lines[4]} & set(stub.calls[0])
    pairs, dropped = made(lines, Stub(table), without=["copy", "duplicate"])
    assert dropped.keys() == {"empty", "markup", "held_out", "refused"}
    assert ("uma cópia de três", "Uma cópia de três.") in pairs


def test_files_may_be_several_and_compressed(made, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES[:9]))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(LINES[5:20]).encode()))
    pairs, dropped = made.files([tmp_path / "a.txt", tmp_path / "b.txt.gz"], Stub())
    assert [line for _, line in pairs] == LINES[:20] and dropped == {"duplicate": 4}
    with pytest.raises(FileNotFoundError, match=r"c\.txt"):
        made.files([tmp_path / "c.txt"], Stub())


def test_a_file_that_is_a_test_set_is_refused_by_name(made, corpus, tmp_path):
    stub = Stub()
    for split in ("test", "validation"):
        held_out = (corpus / f"pt.{split}.txt").read_text().splitlines()
        lines = [LINES[0], *map(str.upper, held_out[:12]), *LINES[1:]]
        with pytest.raises(CorpusError, match=rf"pt\.txt holds 12 of the 20 .*split {split} of "):
            made(lines, stub)
    assert not stub.calls and {path.name for path in tmp_path.iterdir()} == {"pt.txt"}


def test_the_other_language_is_refused_by_name(made, tmp_path):
    english = [*PAIRS.values()]
    with pytest.raises(CorpusError, match=r"pt\.txt must be in 'pt', but is in 'en'"):
        made(english)
    with pytest.raises(CorpusError, match="model, from 'pt' to 'en', writes must be in 'en', but"):
        made(LINES, Stub(dict(itertools.pairwise(LINES))))
    with pytest.raises(CorpusError, match="has no files of the language 'en'"):
        made.files([], Stub(), data=tmp_path)
    assert not list(tmp_path.glob("out*"))


def test_of_nothing_nothing_is_left(made, tmp_path):
    with pytest.raises(
        CorpusError, match=r"Nothing of .*pt\.txt is left; dropped: 2 empty, 40 ref"
    ):
        made(["", *LINES, "..."], Stub({}))
    with pytest.raises(CorpusError, match=r"Nothing of .*pt\.txt is left; dropped: nothing"):
        made([])
    assert not list(tmp_path.glob("out*"))
    with pytest.raises(ValueError, match="no rule 'all'"):
        made(LINES, without=["all"])
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="is not overwritten"):
        made(LINES, output=tmp_path / "out")


def test_what_was_stopped_goes_on(made, tmp_path, monkeypatch):
    monkeypatch.setattr(back_translation, "_PART", 12)
    whole, _ = made(LINES)
    with pytest.raises(KeyboardInterrupt):
        made(LINES, Stub(stop=3), output=tmp_path / "out")
    assert len(list((tmp_path / ".out.parts").iterdir())) == 2 and not (tmp_path / "out").exists()
    stub = Stub()
    again, _ = made(LINES, stub, output=tmp_path / "out")
    assert again == whole and stub.calls == [LINES[24:36], LINES[36:]]
    assert not (tmp_path / ".out.parts").exists()
    # Another model's translations are not taken.
    with pytest.raises(KeyboardInterrupt):
        made(LINES, Stub(stop=3), output=tmp_path / "next")
    other = Stub()
    other.fingerprint = "other"
    made(LINES, other, output=tmp_path / "next")
    assert len(other.calls) == 4


KILLED = """
import os, signal, sys
import numpy as np
from keras_mt import Translator
from keras_mt.training import back_translate, back_translation

back_translation._PART, calls, save = 5, [], np.savez

def killed(path, **arrays):
    calls.append(path)
    if len(calls) == int(sys.argv[4]):
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    save(path, **arrays)

np.savez = killed
translator = Translator.load(sys.argv[1], temperature=1, seed=3)
back_translate(translator, [sys.argv[2]], "phrasebook", "en", "pt", sys.argv[3])
print(len(calls), "parts")
"""


@pytest.mark.long
def test_a_killed_one_ends_with_the_same_samples(python, run_dir, tmp_path):
    (tmp_path / "script.py").write_text(KILLED)
    (tmp_path / "pt.txt").write_text("".join(f"{line}\n" for line in LINES[:20]))
    for output, kill_at, code, parts in (
        ("whole", 0, 0, 4), ("out", 3, -signal.SIGKILL, None), ("out", 0, 0, 2),
    ):  # fmt: skip
        arguments = [run_dir, tmp_path / "pt.txt", tmp_path / output, kill_at]
        done = python(tmp_path / "script.py", *arguments)
        assert done.returncode == code, done.stderr
        assert parts is None or f"{parts} parts" in done.stdout
    for name in ("en.train.txt", "pt.train.txt"):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "whole" / name).read_text()
    assert not list(tmp_path.glob(".*"))
