import json

import numpy as np
import pytest

from keras_mt.data import cleaning, corpus, load_corpus
from keras_mt.data.cleaning import Cleaning, clean
from keras_mt.data.cleaning_rules import rule_names
from keras_mt.errors import CorpusError

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
    (dirty / "en.dev.txt").write_bytes(b"A dog.\n\ncaf\xe9\nA\n")
    (dirty / "de.dev.txt").write_bytes(b"Ein Hund.\nLeer.\nx\nA\n")
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
        assert list(map(list, corpus.dataset_of(found.pairs).as_numpy_iterator())) == KEPT
    assert str(found) == "3 of 9 pairs kept; dropped: 3 empty, 1 copy, 1 markup, 1 duplicate"


def test_rules_are_left_out_by_name(dirty):
    found = Cleaning(dirty, "en", "de", rule_names(without=["copy", "duplicate"]))
    assert found.kept == 5 and set(found.counts).isdisjoint({"copy", "duplicate"})


def test_duplicates_are_those_of_a_set(dirty):
    random = np.random.default_rng(0)
    lines = [f"word {i}." if i % 3 else f"WORD {i}" for i in random.integers(100, 140, 300)]
    for language in ("en", "de"):
        (dirty / f"{language}.train.txt").write_text("\n".join(lines))
    seen = set()
    first = [not (key in seen or seen.add(key)) for key in (line.lower()[:8] for line in lines)]
    found = Cleaning(dirty, "en", "de", rule_names(without=["copy"]))
    assert (found.verdicts == 0).tolist() == first


def test_a_cleaning_that_was_stopped_leaves_nothing_and_starts_anew(dirty, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cleaning, "_copy_split", stop)  # When the training split is written.
        cleaned(dirty, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["dirty"]
    cleaned(dirty, tmp_path / "out")
    assert (tmp_path / "out" / "cleaning.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("en", "fr"), "has no split 'train' of 'fr'"),
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


def test_rows_without_a_target_and_line_breaks_in_a_text_do_no_harm(tmp_path, monkeypatch):
    (tmp_path / "pairs.tsv").write_bytes(b"A dog.\tEin Hund.\nlonely\nA cat.\tEine Katze.\n")
    cleaned(tmp_path / "pairs.tsv", tmp_path / "out")
    assert (tmp_path / "out" / "en.train.txt").read_text() == "A dog.\nA cat.\n"
    monkeypatch.setattr(corpus.Corpus, "pairs", lambda *_, **__: iter([(b"A\ndog.", b"Ein Hund.")]))
    cleaned(tmp_path / "pairs.tsv", tmp_path / "next")
    assert (tmp_path / "next" / "en.train.txt").read_text() == "A dog.\n"
