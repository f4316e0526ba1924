"""Pharaoh's format, the error rate of alignments, and the links of words."""

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.alignment import alignment_error_rate, read_pharaoh, write_pharaoh
from keras_mt.alignment.words import attention_links, word_links
from keras_mt.data import load_corpus

LINKS = st.lists(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999))))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("pharaoh") / "links.txt"


@given(LINKS)
def test_what_is_written_is_read(file, alignments):
    write_pharaoh(file, alignments)
    found = read_pharaoh(file)
    assert [[tuple(link) for link in links] for links in found] == alignments
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    assert lines == [" ".join(f"{i}-{j}" for i, j in links) for links in alignments]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n1-x", r"links.txt:2: .*Received: '1-x'"),
        ("0-0\n1--1", r"links.txt:2: .*Received: '1--1'"),
        ("0-0-0\n\n", r"links.txt:1: .*Received: '0-0-0'"),
        ("0-0\n\xb2-1", r"links.txt:2: .*Received"),
        ("0-0\n0-0 3-1", r"links.txt:2: 3-1 is out of range: the source has 3 tokens"),
        ("0-0\n2p2", r"links.txt:2: 2p2 is out of range: the target has 2 tokens"),
        ("0-0", r"links.txt must have 2 lines, one a pair. It has 1."),
        ("0-0\n\n\n", r"links.txt must have 2 lines, one a pair. It has 3."),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path, text, message):
    path = tmp_path / "links.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pharaoh(path, [(1, 1), (3, 2)])


def test_the_error_rate_is_its_formula():
    random = np.random.default_rng(0)
    grids = random.random((3, 5, 6, 7)) < 0.3  # Links, sure ones, possible ones; pairs; matrices.
    links, sure, possible = ([np.argwhere(grid) for grid in grids_] for grids_ in grids)
    a, s, p = grids[0], grids[1], grids[1] | grids[2]
    expected = 1 - ((a & s).sum() + (a & p).sum()) / (a.sum() + s.sum())
    assert alignment_error_rate(links, sure, possible) == pytest.approx(expected)
    expected = 1 - 2 * (a & s).sum() / (a.sum() + s.sum())
    assert alignment_error_rate(links, sure) == pytest.approx(expected)
    assert alignment_error_rate(sure, sure, possible) == 0
    assert alignment_error_rate([[]], [[]]) == 0
    with pytest.raises(ValueError, match="Received: 5, 4 and 5"):
        alignment_error_rate(links, sure[1:], possible)


def test_the_links_by_hand_fit_their_sentences():
    folder = ROOT / "examples" / "alignment" / "by_hand"
    test = set(load_corpus("phrasebook", "pt", "en", "test").as_numpy_iterator())
    pairs = list(load_corpus(folder, "pt", "en", "test").as_numpy_iterator())
    assert len(pairs) == 150 and set(pairs) <= test
    lengths = [[len(text.split()) for text in pair] for pair in pairs]
    sure, possible = (read_pharaoh(folder / "links.pharaoh", lengths, x) for x in (False, True))
    for one, other, (n, m) in zip(sure, possible, lengths, strict=True):
        links = {tuple(link) for link in other.tolist()}
        assert len(links) == len(other) and {tuple(link) for link in one.tolist()} <= links
        assert [{link[side] for link in links} for side in (0, 1)] == [{*range(n)}, {*range(m)}]


def test_links_of_words():
    words = np.array([0, 0, -1, 1, -1]), np.array([0, 1, 1, -1])
    links = [(0, 0), (1, 0), (1, 1), (2, 3), (3, 3), (3, 2), (4, 2)]
    assert word_links(links, *words).tolist() == [[0, 0], [0, 1], [1, 1]]
    attention = np.array(
        [
            [0.3, 0.3, 0.0, 0.4, 0.0],  # Of both pieces of a word, more than of the other word.
            [0.0, 0.0, 0.0, 0.2, 0.8],
            [0.2, 0.0, 0.0, 0.4, 0.4],  # The mean of this and the one before: 0.3.
            [0.0, 0.0, 0.0, 1.0, 0.0],
        ]
    )
    assert attention_links(attention, *words).tolist() == [[0, 0], [1, 1]]
    assert attention_links(attention, *words, least=0.35).tolist() == [[0, 0]]
    assert attention_links(attention, np.full(5, -1), words[1]).shape == (0, 2)
