import itertools
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.text.sentences import cut, split_lines, split_sentences


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def split(text):
    """Lines, and the sentences of each; the glue before each; what follows."""
    lines, glue, ends = split_lines(text)
    sentences, spaces = split_sentences(lines.flat_values)
    first = tf.concat([glue.flat_values[:, None], spaces[:, 1:]], axis=1)
    return [lines.with_values(x).merge_dims(1, 2) for x in (sentences, first)] + [ends]


def segments(*texts):
    """For each text its segments, each with the glue before it."""
    found = [ragged.to_list() for ragged in split(tf.constant(texts))[:2]]
    return [
        [(glue.decode(), segment.decode()) for segment, glue in zip(*row, strict=True)]
        for row in zip(*found, strict=True)
    ]


def ends(*texts):
    return [end.decode() for end in split(tf.constant(texts))[2].numpy()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("Hello.", ["Hello."]),
        ("Hello there. How are you?  Fine!", ["Hello there.", "How are you?", "Fine!"]),
        ("It costs $3.50 at example.com, e.g. in May.", None),
        ("Mr. Smith met J. R. R. Tolkien of the U.S. Army.", None),
        ("Am 3. Mai, z. B. um acht.", None),
        ("She went… no, she ran.", None),
        ("“Really?” He left. (So they say.) Well.",
         ["“Really?”", "He left.", "(So they say.)", "Well."]),
        ("Im Café. Das ist é", ["Im Café.", "Das ist é"]),
        ("Привет! Как дела? ¿Qué tal? ¡Bien!",
         ["Привет!", "Как дела?", "¿Qué tal?", "¡Bien!"]),
        ("这是。那是！对吗？是", ["这是。", "那是！", "对吗？", "是"]),
        ("真的吗？！是的。", ["真的吗？！", "是的。"]),
        ("看雅虎！\x03财经。好", ["看雅虎！财经。", "好"]),
        ("好！！！", None),
        ("他说：“好。”", None),
        ("「これは何？」と聞いた。", None),
        ("It rains.\u00a0We stay.\u3000He goes.\u2009\u2028She too.\u2003",
         ["It rains.", "We stay.", "He goes.", "She too."]),
        ("这是。\u3000那是！", ["这是。", "那是！"]),
        ("\u00a0Mr.\u00a0Smith of the U.S.\u202fArmy.", ["Mr.\u00a0Smith of the U.S.\u202fArmy."]),
        ("مرحبا. كيف حالك؟", ["مرحبا.", "كيف حالك؟"]),
    ],
)  # fmt: skip
def test_sentences_end_where_readers_end_them(text, expected):
    assert [segment for _, segment in segments(text)[0]] == (expected or [text])


def test_line_ends_and_the_white_space_around_them_stay():
    text = "\t a\r\nb. B\n\n\n c\td \n"
    assert segments(text)[0] == [("\t ", "a"), ("\r\n", "b. B"), ("\n\n\n ", "c d")]
    assert ends(text, "a", " \n ", "a\r\n") == [" \n", "", " \n ", "\r\n"]
    found = segments("a\u00a0\n\u3000b\u2028c\n\u2009\nd")[0]
    assert found == [("", "a"), ("\u00a0\n\u3000", "b\u2028c"), ("\n\u2009\n", "d")]


def test_lines_not_to_be_cut_are_one_segment_each():
    found, glue = split_sentences(tf.constant(["An an. Be be."] * 2), [False, True])
    assert found.to_list() == [[b"An an. Be be."], [b"An an.", b"Be be."]]
    assert glue.to_list() == [[b""], [b"", b" "]]


@given(st.lists(st.text() | st.text("aB.!? \u00a0\u3000\u2028\n\x1e\x1f。\"'é"), max_size=4))
def test_nothing_is_dropped(texts):
    rows = (segments(*texts), ends(*texts)) if texts else ([], [])
    for text, found, end in zip(texts, *rows, strict=True):
        assert not any(re.search("[\x00-\x1f\x7f-\x9f]", segment) for _, segment in found)
        joined = "".join(glue + segment for glue, segment in found) + end
        if "\n" in text:  # White space around lines stays as it is.
            cleaned = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", " ", text)
            assert re.search(r"^\s*", joined)[0] == re.search(r"^\s*", cleaned)[0]
            assert re.search(r"\s*$", joined)[0] == re.search(r"\s*$", cleaned)[0]
        assert "".join(joined.split()) == "".join(re.sub("[\x00-\x1f\x7f-\x9f]", "", text).split())


@given(
    st.lists(st.lists(st.integers(4, 7), max_size=40), max_size=4),
    st.integers(1, 12),
)
def test_parts_are_short_and_make_up_their_row(rows, limit):
    begins = np.arange(8) == 4
    ids = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
    parts, row = (x.numpy() for x in cut(ids, tf.constant(begins), limit))
    for i, whole in enumerate(rows):
        own = [list(part) for part, r in zip(parts, row, strict=True) if r == i]
        assert own and list(itertools.chain(*own)) == whole
        assert max(map(len, own)) <= limit and (len(own) == 1 or all(own))
        if len(whole) <= limit:
            assert len(own) == 1
        for before, after in itertools.pairwise(own):
            # Cut within a word only where the word is long.
            word = (before[::-1].index(4) if 4 in before else len(before)) + (
                next((n for n, piece in enumerate(after) if piece == 4), len(after))
            )
            assert after[0] == 4 or word + 1 >= limit // 2
