import collections
from html.parser import HTMLParser

import pytest
import sacrebleu
from click.testing import CliRunner

from keras_mt.cli import main
from keras_mt.evaluation import Comparison
from keras_mt.evaluation.comparison import repetition, words

SOURCES = ["um gato", "dois <b>cães</b> & um rato", "três", "quatro " * 12]
REFERENCES = ["a cat sleeps", "two <b>dogs</b> & a rat", "three", "four " * 11 + "end"]
FIRST = ["a cat sleeps", "two <i>dogs</i> & a rat", "tree", "four " * 24]
SECOND = ["a dog sleeps", "2 dogs", "three", "four " * 11 + "end"]


@pytest.fixture
def comparison():
    training = ["a cat", "a dog", "a dog sleeps"] * 20 + ["two dogs"]
    return Comparison(SOURCES, REFERENCES, FIRST, SECOND, ("one", "other"), training)


def test_sentences_come_by_how_much_their_chrf_differs(comparison):
    metric = sacrebleu.CHRF()
    both = [
        [metric.sentence_score(text, [r]).score for text, r in zip(texts, REFERENCES, strict=True)]
        for texts in (FIRST, SECOND)
    ]
    for found in comparison.differences:
        assert found.chrf == (both[0][found.number - 1], both[1][found.number - 1])
        assert found.translations == (FIRST[found.number - 1], SECOND[found.number - 1])
    gaps = [abs(found.chrf[0] - found.chrf[1]) for found in comparison.differences]
    assert gaps == sorted(gaps, reverse=True) and gaps[0] > gaps[-1]
    for system, score in zip((FIRST, SECOND), comparison.chrf, strict=True):
        assert score == metric.corpus_score(system, [REFERENCES]).score


def test_buckets_are_those_counted_by_hand(comparison):
    short, long = comparison.lengths
    assert (short.name, short.size, long.name, long.size) == ("1-9 words", 2, "10-19", 2)
    part = sacrebleu.CHRF().corpus_score([FIRST[0], FIRST[2]], [[REFERENCES[0], REFERENCES[2]]])
    assert short.values[0] == part.score
    found = {bucket.name: bucket for bucket in comparison.frequencies}
    # Of "a" there are 60 in the training text; of "cat", "sleeps" 20; of "two", "dogs" 1.
    assert found["10-99"].size == 4 and found["1-9 times"].size == 2
    assert found["10-99"].values[0] == 100
    # The second has "a", "sleeps" right of 4, and "dog" too much.
    assert found["10-99"].values[1] == pytest.approx(100 * 2 * 2 / (4 + 3))
    assert found["1-9 times"].values == (100, pytest.approx(100 * 2 * 1 / (2 + 1)))
    repeated = {bucket.name: bucket for bucket in comparison.repetitions}
    assert repeated["25% or more"].size == 1 and repeated["25% or more"].values == (1, 1)


@pytest.mark.parametrize("text", ["", "a", "a b", "a a a a", "x y x y z x y"])
def test_repetition_is_the_share_of_pairs_seen_before(text):
    seen, again = collections.Counter(), 0
    found = words(text)
    pairs = [(found[i], found[i + 1]) for i in range(len(found) - 1)]
    for pair in pairs:
        again += seen[pair] > 0
        seen[pair] += 1
    assert repetition(text) == pytest.approx(again / len(pairs) if pairs else 0)


class Page(HTMLParser):
    """The tags that a page opens, which must all be closed, and its marked texts."""

    void = ("meta",)

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.marked, self.text = [], collections.Counter(), [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen[tag] += 1
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("ins", "del"):
            self.marked.append((self.open[-1], data))


def test_a_page_shows_texts_as_texts_and_marks_words_that_differ(comparison):
    page = Page(comparison.as_html())
    assert not page.seen["b"] and not page.seen["i"] and not page.seen["script"]
    assert SOURCES[1] in page.text and REFERENCES[1] in page.text
    assert ("ins", "cat") in page.marked and ("del", "dog") in page.marked
    assert ("del", "tree") in page.marked and ("ins", "three") in page.marked
    assert ("ins", "a") not in page.marked[:1]
    assert page.text.count("Sentence ") == 4
    assert Page(comparison.as_html(1)).text.count("Sentence ") == 1
    shown = comparison.as_text(4, mark=lambda word, right: f"[{word}]" if right else f"({word})")
    assert "a [cat] sleeps" in shown and "a (dog) sleeps" in shown and "(tree)" in shown


def test_unlike_columns_are_refused():
    with pytest.raises(ValueError, match=r"as many .* Received: 1, 1, 2, 1"):
        Comparison(["a"], ["a"], ["a", "b"], ["a"], ("one", "other"))
    with pytest.raises(ValueError, match=r"Received: 0, 0, 0, 0"):
        Comparison([], [], [], [], ("one", "other"))


def test_the_command_takes_models_and_files(load, run_dir, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_mt.cli.systems.load_translator", lambda *_: load())
    references = (corpus / "en.test.txt").read_text(encoding="utf-8")
    theirs = tmp_path / "theirs.txt"
    theirs.write_text(references.replace("the", "a"), encoding="utf-8")
    arguments = ["compare", run_dir, theirs, "--data", corpus, "--source", "pt", "--target", "en"]
    result = CliRunner().invoke(main, [*map(str, arguments), "--number", "2"])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("Sentence ") == 2 and "20 sentences" in result.stdout
    assert "\x1b[" not in result.stdout  # No colours in a file.
    assert "never" in result.stdout  # Words that are not in the training split.
    page = tmp_path / "page.html"
    result = CliRunner().invoke(main, [*map(str, arguments), "--html", str(page)])
    assert result.exit_code == 0, result.stderr
    assert Page(page.read_text(encoding="utf-8")).text.count("Sentence ") == 20
