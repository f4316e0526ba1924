import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from keras_mt.data import Cleaning, CorpusError, clean, cleaning, load_corpus
from keras_mt.data.rules import rule_names
from keras_mt.translation import Score

# The rule that drops a pair, and the pair.
ROWS = [
    (None, b"A dog runs.", b"Ein Hund rennt."),
    ("empty", b"", b"Leer."),
    ("empty", b"Nothing.", b" \t"),
    ("copy", b"A dog runs away.", b"A dog runs away."),
    (None, b"A cat\xe2\x80\xa8sleeps.", b"Eine Katze schl\xc3\xa4ft."),
    ("markup", b"caf\xe9", b"Kaffeehaus"),
    ("duplicate", b"a dog runs", b"Ein Hund rennt!"),
    ("empty", b"", b"Leer."),
    (None, b"Berlin", b"Berlin"),
]
KEPT = [pair for rule, *pair in ROWS if rule is None]


@pytest.fixture
def dirty(tmp_path):
    folder = tmp_path / "dirty"
    folder.mkdir()
    for i, language in enumerate(("en", "de"), start=1):
        lines = b"".join(row[i] + b"\n" for row in ROWS)
        (folder / f"{language}.train.txt").write_bytes(lines)
        (folder / f"{language}.test.txt").write_bytes(b"same\nsame\n")
    return folder


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def cleaned(data, output, **options):
    """Cleans a corpus and returns the lines of the report."""
    lines = []
    clean(data, "en", "de", output, report=lines.append, **options)
    return lines


def test_a_corpus_that_training_takes_is_written_and_the_rest_is_accounted_for(dirty, tmp_path):
    with pytest.raises(CorpusError, match=r"en\.train\.txt:2 is blank.*keras-mt clean"):
        load_corpus(dirty, "en", "de", "train")
    lines = cleaned(dirty, tmp_path / "out")
    pairs = load_corpus(tmp_path / "out", "en", "de", "train").as_numpy_iterator()
    assert list(map(list, pairs)) == KEPT
    assert len(list(load_corpus(tmp_path / "out", "en", "de", "test"))) == 2
    result = json.loads((tmp_path / "out" / "cleaning.json").read_text())
    for name in rule_names():
        rows = [row for row in ROWS if row[0] == name]
        rule = result["rules"][name]
        assert rule["dropped"] == len(rows) and rule["share"] == len(rows) / len(ROWS)
        shown = [[text.decode("utf-8", "replace") for text in row[1:]] for row in rows[:2]]
        assert rule["examples"] == shown
        assert any(line.split()[:2] == [name, str(len(rows))] for line in lines)
    assert (result["pairs"], result["kept"]) == (len(ROWS), len(KEPT))
    assert "copied: test" in lines
    assert {path.name for path in tmp_path.iterdir()} == {"dirty", "out"}
    with pytest.raises(FileExistsError, match="is not overwritten"):
        cleaned(dirty, tmp_path / "out")


def test_other_splits_lose_only_what_no_command_takes(dirty, tmp_path):
    for language, lines in (("en", b"A dog.\n\ncaf\xe9\nA\n"), ("de", b"Ein Hund.\nLeer.\nx\nA\n")):
        (dirty / f"{language}.dev.txt").write_bytes(lines)
    lines = cleaned(dirty, tmp_path / "out")
    pairs = load_corpus(tmp_path / "out", "en", "de", "validation").as_numpy_iterator()
    assert list(pairs) == [(b"A dog.", b"Ein Hund."), (b"A", b"A")]
    assert lines[-2:] == [
        "copied: dev, without 2 pairs that are blank or not UTF-8",
        "copied: test",
    ]


def test_training_takes_the_same_pairs_without_a_folder(dirty):
    found = Cleaning(dirty, "en", "de", rule_names())
    for _ in range(2):
        assert list(map(list, found.dataset().as_numpy_iterator())) == KEPT
    assert str(found) == "3 of 9 pairs kept; dropped: 3 empty, 1 copy, 1 markup, 1 duplicate"


def test_rules_are_left_out_by_name(dirty):
    found = Cleaning(dirty, "en", "de", rule_names(without=["copy", "duplicate"]))
    assert found.kept == 5 and set(found.counts).isdisjoint({"copy", "duplicate"})


def test_duplicates_are_those_of_a_set_whatever_the_parts(dirty, monkeypatch):
    random = np.random.default_rng(0)
    lines = [f"word {i}." if i % 3 else f"WORD {i}" for i in random.integers(100, 140, 300)]
    for language in ("en", "de"):
        (dirty / f"{language}.train.txt").write_text("\n".join(lines))
    seen = set()
    first = [not (key in seen or seen.add(key)) for key in (line.lower()[:8] for line in lines)]
    for size in (7, 300):
        monkeypatch.setattr(cleaning, "_PART", size)
        found = Cleaning(dirty, "en", "de", rule_names(without=["copy"]))
        assert (found.verdicts == 0).tolist() == first


def test_a_cleaning_that_was_stopped_goes_on(dirty, tmp_path, monkeypatch):
    monkeypatch.setattr(cleaning, "_PART", 2)
    cleaned(dirty, tmp_path / "whole")
    rules, judged = cleaning._rules, []

    def stop(*arguments):
        judged.append(arguments)
        if len(judged) == 4:
            raise KeyboardInterrupt
        return rules(*arguments)

    monkeypatch.setattr(cleaning, "_rules", stop)
    with pytest.raises(KeyboardInterrupt):
        cleaned(dirty, tmp_path / "out")
    assert len(list((tmp_path / ".out.parts").glob("*.npz"))) == 3
    assert not (tmp_path / "out").exists()
    cleaned(dirty, tmp_path / "out")
    assert len(judged) == 6  # Of five parts, the fourth twice.
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    # What was judged under other rules, or of other lines, is not taken.
    judged[:] = [None] * 2
    with pytest.raises(KeyboardInterrupt):
        cleaned(dirty, tmp_path / "next")
    cleaned(dirty, tmp_path / "next", without=["copy"])
    assert len(judged) == 4 + 5


class Table:
    """Gives a target's tokens the log-probability of its pair in the table, or of itself."""

    fingerprint = "table"

    def __init__(self, log_probs, stop=0):
        self.log_probs, self.stop, self.calls = log_probs, stop, []

    def score(self, sources, targets):
        self.calls.append(sources)
        if len(self.calls) == self.stop:
            raise KeyboardInterrupt
        scores = []
        for pair in zip(sources, targets, strict=True):
            x, n = self.log_probs.get(pair, self.log_probs.get(pair[1])), len(pair[1])
            scores.append(None if x is None else Score(n * x, [("x", x)] * n))
        return scores


# Their gains: 4, 4, 4, 1.1 and 0.9.
GAINS = {
    ("A dog.", "Ein Hund."): -1, "Ein Hund.": -5,
    ("Yes.", "Ja."): -5, "Ja.": -9,
    ("Two dogs.", "Zwei Hunde."): -0.5, "Zwei Hunde.": -4.5,
    ("Not at all!", "Nein!"): -1.9, "Nein!": -3,
    ("A house.", "Ein Kater."): -4.1, "Ein Kater.": -5,
}  # fmt: skip
PAIRS = [pair for pair in GAINS if isinstance(pair, tuple)] + [("It is refused.", "Zu lang.")]


@pytest.fixture
def pairs_file(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in [("", "Leer."), *PAIRS]))
    return path


def test_pairs_that_gain_little_by_their_source_are_dropped(pairs_file, tmp_path):
    translator = Table(GAINS)
    lines = cleaned(pairs_file, tmp_path / "out", translator=translator)
    sources = [source for source, _ in PAIRS]
    kept = (tmp_path / "out" / "en.train.txt").read_text().splitlines()
    assert kept == [source for source in sources if source != "A house."]
    (row,) = (i for i, line in enumerate(lines) if line.split()[:3] == ["score", "1", "14.29%"])
    assert "less than 1.00 a token, 0.25 times the median" in lines[row]
    assert lines[row + 1].strip() == "A house. | Ein Kater."
    # What other rules drop is not scored. The rest is: with its own source, and with another.
    own, other = translator.calls
    assert own == sources and sorted(other) == sorted(own)
    assert all(a != b for a, b in zip(own, other, strict=True))
    for share, kept in ((0, 6), (0.2, 6), (0.3, 4), (1, 4)):
        options = {"translator": translator, "min_gain": share}
        assert Cleaning(pairs_file, "en", "de", rule_names(), **options).kept == kept


def test_a_translator_that_does_not_fit_is_refused(pairs_file, tmp_path):
    with pytest.raises(ValueError, match="min_gain must be from 0 to 1"):
        cleaned(pairs_file, tmp_path / "out", translator=Table(GAINS), min_gain=-1)
    same = Table({target: -1 for _, target in PAIRS})
    with pytest.raises(ValueError, match=r"pairs\.tsv no more probable .* 'en' to 'de', and learn"):
        cleaned(pairs_file, tmp_path / "out", translator=same)
    # What it refuses, and a single pair, are kept.
    cleaned(pairs_file, tmp_path / "next", translator=Table({}))
    pairs_file.write_text("A dog.\tEin Hund.\n")
    assert Cleaning(pairs_file, "en", "de", rule_names(), translator=same).kept == 1


def test_scores_are_kept_when_it_is_stopped(pairs_file, tmp_path, monkeypatch):
    monkeypatch.setattr(cleaning, "_SCORED", 2)
    with pytest.raises(KeyboardInterrupt):
        cleaned(pairs_file, tmp_path / "out", translator=Table(GAINS, stop=5))
    translator = Table(GAINS)
    cleaned(pairs_file, tmp_path / "out", translator=translator)
    assert [set(sources) for sources in translator.calls] == [{"A house.", "It is refused."}] * 2
    assert not list(tmp_path.glob(".*"))


KILLED = """
import os, signal, sys
import numpy as np
from keras_mt.data import clean, cleaning

cleaning._PART, calls, save = 2, [], np.savez

def killed(path, **arrays):
    calls.append(path)
    if len(calls) == int(sys.argv[3]):
        path.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    save(path, **arrays)

np.savez = killed
if __name__ == "__main__":
    clean(sys.argv[1], "en", "de", sys.argv[2], processes=int(sys.argv[4]))
"""


@pytest.mark.long
def test_a_killed_cleaning_ends_with_the_same_bytes_as_several_processes(python, dirty, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    for output, kill_at, processes, code in (
        ("out", 3, 1, -signal.SIGKILL), ("out", 0, 1, 0), ("several", 0, 2, 0),
    ):  # fmt: skip
        arguments = [script, dirty, tmp_path / output, kill_at, processes]
        if processes > 1:  # They are started anew, by Python itself.
            done = subprocess.run([sys.executable, *map(str, arguments)], check=False)
        else:
            done = python(*arguments)
        assert done.returncode == code
    cleaned(dirty, tmp_path / "whole")
    expected = files_of(tmp_path / "whole")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "several") == expected
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("en", "fr"), "has no files of the language 'fr'"),
        (("en", "en"), "must differ"),
    ],
)
def test_a_corpus_without_the_language_is_refused(dirty, tmp_path, arguments, message):
    with pytest.raises(CorpusError, match=message):
        clean(dirty, *arguments, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path):
    (tmp_path / "pairs.tsv").write_text("猫です\tein Kater\n犬です\tein Hund\n")
    with pytest.raises(
        CorpusError, match=r"Nothing of .*0 of 2 pairs kept.*2 script.*clean --without"
    ):
        cleaned(tmp_path / "pairs.tsv", tmp_path / "out")
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "en.train.txt").write_text("a\n")
    (tmp_path / "de.train.txt").write_text("b\nc\n")
    with pytest.raises(CorpusError, match=r"1 lines and .*2"):
        cleaned(tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="no rule 'copies'"):
        cleaned(tmp_path, tmp_path / "out", without=["copies"])
    with pytest.raises(ValueError, match="processes must be at least 1"):
        cleaned(tmp_path, tmp_path / "out", processes=0)


def test_rows_without_a_target_and_line_breaks_in_a_text_do_no_harm(tmp_path, monkeypatch):
    (tmp_path / "pairs.tsv").write_bytes(b"A dog.\tEin Hund.\nlonely\nA cat.\tEine Katze.\n")
    cleaned(tmp_path / "pairs.tsv", tmp_path / "out")
    assert (tmp_path / "out" / "en.train.txt").read_text() == "A dog.\nA cat.\n"
    monkeypatch.setattr(cleaning, "raw_pairs", lambda *_: iter([(b"A\ndog.", b"Ein Hund.")]))
    cleaned(tmp_path / "pairs.tsv", tmp_path / "next")
    assert (tmp_path / "next" / "en.train.txt").read_text() == "A dog.\n"
