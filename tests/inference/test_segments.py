"""Places where no sentence ends."""

import pytest
import tensorflow as tf

from keras_mt.inference.segments import Segmenter
from keras_mt.text import Tokenizer

TEXTS = ["O gato dorme. A casa é nova!", "Is it new?", "Yahoo! Finance"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS * 9, vocab_size=330)


def read(tokenizer, text):
    """The pieces of the segments of a text."""
    return Segmenter(tokenizer, 61, True).segments(tf.constant([text])).pieces.to_list()


def pieces_of(tokenizer, text):
    return tokenizer.pieces(tf.constant([text]))[0].numpy().tolist()


@pytest.mark.parametrize("text", ["a\x01b\x02 c", "\x01", "a\x04b\x05c\x06", "a\x00b"])
def test_other_control_characters_are_spaces(tokenizer, text):
    spaces = "".join(" " if c < " " else c for c in text)
    assert read(tokenizer, text) == read(tokenizer, spaces)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Yahoo! Finance", ["Yahoo!", "Finance"]),
        ("Yahoo!\x03 Finance", ["Yahoo! Finance"]),
        ("Is it new?\x03\u00a0A casa! O gato", ["Is it new?\u00a0A casa!", "O gato"]),
        ("O gato.\x03\x03 A casa\x03", ["O gato. A casa"]),
        ("Yahoo!\x03\nFinance", ["Yahoo!", "Finance"]),
    ],
)
def test_no_sentence_ends_at_a_guard(tokenizer, text, sentences):
    found = read(tokenizer, text)
    assert found == [pieces_of(tokenizer, sentence) for sentence in sentences]
