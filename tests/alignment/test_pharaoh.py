"""Pharaoh's format, and the links of words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.alignment import read_pharaoh, write_pharaoh
from keras_mt.alignment.attention_links import attention_links

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
        ("0-0\n2-2", r"links.txt:2: 2-2 is out of range: the target has 2 tokens"),
        ("0-0\n1p1", r"links.txt:2: .*Received: '1p1'"),
        ("0-0", r"links.txt must have 2 lines, one a pair. It has 1."),
        ("0-0\n\n\n", r"links.txt must have 2 lines, one a pair. It has 3."),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(tmp_path, text, message):
    path = tmp_path / "links.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pharaoh(path, [(1, 1), (3, 2)])


def test_links_of_words_by_attention():
    words = np.array([0, 0, -1, 1, -1]), np.array([0, 1, 1, -1])
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
