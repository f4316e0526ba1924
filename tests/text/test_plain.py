"""The text's way without TensorFlow, held to the graph's."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.text import plain, sentences

WILD = "aB1.!?… \u00a0\u3000\u2028\u200b\ufeff\n\r\t\x00\x01\x02\x03\x04\x05\x1d\x1f\x85。！\"'»é▁ß"
TEXTS = st.lists(st.text() | st.text(WILD), min_size=20, max_size=60)


def of_graph(texts, with_terms):
    """For each text its lines, the white space before each, and that after the last."""
    lines, before, ends = sentences.split_lines(tf.constant(texts), with_terms)
    rows = zip(lines.to_list(), before.to_list(), ends.numpy().tolist(), strict=True)
    return [([x.decode() for x in a], [x.decode() for x in b], c.decode()) for a, b, c in rows]


@given(TEXTS, st.booleans())
def test_lines_and_sentences_are_those_of_the_graph(texts, with_terms):
    found = [plain.split_lines(text, with_terms) for text in texts]
    assert found == of_graph(texts, with_terms)
    lines = [line for lines, _, _ in found for line in lines]
    where = [i % 4 > 0 for i in range(len(lines))]
    expected = [x.to_list() for x in sentences.split_sentences(tf.constant(lines), where)]
    for line, whether, *pair in zip(lines, where, *expected, strict=True):
        found = [[x.encode() for x in side] for side in plain.split_sentences(line, whether)]
        assert found == pair


@given(st.lists(st.lists(st.integers(4, 7), max_size=40), min_size=1), st.integers(1, 12))
def test_cuts_are_those_of_the_graph(rows, limit):
    begins = np.arange(8) == 4
    ids = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
    expected = sentences.cut(ids, tf.constant(begins), limit)[0].to_list()
    assert [part for row in rows for part in plain.cut(row, begins, limit)] == expected
