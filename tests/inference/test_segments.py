"""Terms that a model reads in its source, and places where no sentence ends."""

import numpy as np
import pytest
import tensorflow as tf

from keras_mt.data.annotation import Annotator, Phrase
from keras_mt.inference.segments import Segmenter
from keras_mt.text import Tokenizer

TEXTS = ["O gato dorme. A casa é nova!", "The tiger cat sleeps. Is it new?", "Yahoo! Finance"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS * 9, vocab_size=330)


def read(tokenizer, *texts, limit=60, reads_terms=True, split=True):
    """The pieces of the segments of texts, and the segments as text without terms."""
    segmenter = Segmenter(tokenizer, limit + 1, split, reads_terms)
    segments = segmenter.segments(tf.constant(texts))
    return segments.pieces.to_list()


def text_of(tokenizer, pieces):
    return tokenizer.detokenize([pieces]).numpy()[0].decode()


def pieces_of(tokenizer, text):
    return tokenizer.pieces(tf.constant([text]))[0].numpy().tolist()


def test_terms_are_read_as_the_annotator_writes_them(tokenizer):
    annotator, markers = Annotator(tokenizer, share=1.0), tokenizer.term_markers
    source = pieces_of(tokenizer, "O gato dorme.")
    target = pieces_of(tokenizer, "The tiger cat sleeps.")
    starts = [
        [i for i, x in enumerate(ids) if tokenizer.begins_word[x]] for ids in (source, target)
    ]
    gato, tiger_cat = slice(*starts[0][1:3]), slice(starts[1][1], starts[1][3])
    words = Phrase(gato, tiger_cat)

    class Kept:  # Leaves the term and its words as they are.
        def random(self):
            return 0.9

    ids = [np.array([*side, tokenizer.eos_id]) for side in (source, target)]
    expected, *_ = annotator._with_term(*ids, np.zeros((0, 2), int), words, Kept())
    assert {*markers} <= {*expected}
    (found,) = read(tokenizer, "O gato\x01tiger cat\x02 dorme.")
    assert found == expected[:-1].tolist()
    (guarded,) = read(tokenizer, "O gato\x01tiger\x03 cat\x02 dorme.")
    assert guarded == found


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("O gato.\x01cat.\x02 A casa", [("O gato.", ["cat."]), ("A casa", [])]),
        ("É nova\x01is. New? It\x02 A casa", [("É nova A casa", ["is. New? It"])]),
        ("猫。\x01tiger。cat\x02 A casa\x01the\x02",
         [("猫。", ["tiger。cat"]), ("A casa", ["the"])]),
        ("A\x01the\x02 casa\n\x01new\x02 nova. O\x01it\x02",
         [("A casa", ["the"]), ("nova.", ["new"]), ("O", ["it"])]),
        ("a\x01b c\x02d\x02 \x01", [("a d", ["b c"])]),  # What makes no pair is white space.
        ("a \x01\x02b", [("a b", [])]),
    ],
)  # fmt: skip
def test_sentences_end_before_terms_and_never_in_one(tokenizer, text, sentences):
    begin, end = tokenizer.term_markers
    found = read(tokenizer, text)
    assert len(found) == len(sentences)
    for pieces, (bare, terms) in zip(found, sentences, strict=True):
        own, within = [], None
        for piece in pieces:
            if piece == begin:
                within = []
            elif piece == end:
                assert text_of(tokenizer, within) == terms.pop(0)
                within = None
            else:
                (own if within is None else within).append(piece)
        assert not terms and within is None
        assert text_of(tokenizer, own) == bare


def test_a_sentence_over_the_limit_is_read_without_its_terms(tokenizer):
    short, long = "O gato\x01cat\x02.", "A casa\x01the tiger\x02 é nova."
    sizes = [len(pieces) for pieces in read(tokenizer, short, long)]
    bare = pieces_of(tokenizer, "A casa é nova.")
    assert sizes[1] > max(sizes[0], len(bare))
    with_terms = read(tokenizer, f"{long} {short}", limit=sizes[1])
    found = read(tokenizer, f"{long} {short}", limit=sizes[1] - 1)
    assert [len(pieces) for pieces in with_terms] == sizes[::-1] or len(with_terms) == 2
    assert found == [bare, with_terms[1]] and tokenizer.term_markers[0] in found[1]


def test_pairs_have_the_terms_of_their_sources(tokenizer):
    segmenter = Segmenter(tokenizer, 60, True, True)
    text = "O gato.\x01cat\x02 A casa\x01house\x02"
    pairs, _ = segmenter.pairs(tf.constant([text]), tf.constant(["The cat. A house"]), [True])
    assert pairs.source.to_list() == read(tokenizer, text)
    assert [text_of(tokenizer, x) for x in pairs.target.to_list()] == ["The cat.", "A house"]


@pytest.mark.parametrize(
    "text", ["a\x01b\x02 c", "a\x03b\x03", "\x01", "a\x04b\x05c\x06", "a\x00b"]
)
def test_other_control_characters_are_spaces(tokenizer, text):
    spaces = "".join(" " if c < " " else c for c in text)
    assert read(tokenizer, text, reads_terms=False) == read(tokenizer, spaces)


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
@pytest.mark.parametrize("reads_terms", [False, True])
def test_no_sentence_ends_at_a_guard(tokenizer, text, sentences, reads_terms):
    found = read(tokenizer, text, reads_terms=reads_terms)
    assert found == [pieces_of(tokenizer, sentence) for sentence in sentences]
