"""The error rate of alignments, and the links by hand that it is measured with."""

import numpy as np
import pytest
from conftest import ROOT

from keras_mt.data import load_corpus


@pytest.fixture
def error_rate(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "alignment")
    import error_rate

    return error_rate


def test_the_error_rate_is_its_formula(error_rate):
    random = np.random.default_rng(0)
    grids = random.random((3, 5, 6, 7)) < 0.3  # Links, sure ones, possible ones; pairs; matrices.
    links, sure, possible = ([np.argwhere(grid) for grid in grids_] for grids_ in grids)
    a, s, p = grids[0], grids[1], grids[1] | grids[2]
    expected = 1 - ((a & s).sum() + (a & p).sum()) / (a.sum() + s.sum())
    assert error_rate.alignment_error_rate(links, sure, possible) == pytest.approx(expected)
    assert error_rate.alignment_error_rate(sure, sure, possible) == 0


def test_the_links_by_hand_fit_their_sentences(error_rate):
    test = set(load_corpus("phrasebook", "pt", "en", "test").as_numpy_iterator())
    pairs = list(load_corpus(error_rate.BY_HAND, "pt", "en", "test").as_numpy_iterator())
    assert len(pairs) == 150 and set(pairs) <= test
    lines = (error_rate.BY_HAND / "links.pharaoh").read_text().splitlines()
    links = map(error_rate.links_by_hand, ("-", "-p"))
    sides = zip(pairs, *links, lines, strict=True)
    for pair, sure, possible, line in sides:
        assert len(set(possible)) == len(line.split()) and set(sure) <= set(possible)
        assert [{link[side] for link in possible} for side in (0, 1)] == [
            {*range(len(text.split()))} for text in pair
        ]


def test_links_of_pieces_become_links_of_words(error_rate):
    words = np.array([0, 0, -1, 1, -1]), np.array([0, 1, 1, -1])
    links = [(0, 0), (1, 0), (1, 1), (2, 3), (3, 3), (3, 2), (4, 2)]
    assert error_rate.word_links(links, *words).tolist() == [[0, 0], [0, 1], [1, 1]]
