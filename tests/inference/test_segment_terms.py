import hypothesis
import tensorflow as tf
from hypothesis import strategies

from keras_mt.inference.terms import SegmentTerms, annotated, continues_word

BEGIN, END = 91, 92

segments = strategies.lists(  # Of each segment the numbers of pieces of its words, and terms.
    strategies.tuples(
        strategies.lists(strategies.integers(1, 3), max_size=5),
        strategies.lists(
            strategies.tuples(
                strategies.integers(0, 4),
                strategies.integers(0, 2),
                strategies.lists(strategies.integers(50, 60), min_size=1, max_size=3),
                strategies.booleans(),  # Whether it is a kept span.
            ),
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=4,
)


def by_hand(words, terms, limit):
    rows = [[(10 * i + j, i) for j in range(count)] for i, count in enumerate(words)]
    for _, last, term, kept in terms:
        rows[last] += [(x, last) for x in (BEGIN, *term, END) if not kept]
    row = [pair for word in rows for pair in word]
    if len(row) > limit:
        return [(10 * i + j, i) for i, count in enumerate(words) for j in range(count)]
    return row


@hypothesis.given(segments, strategies.integers(0, 25))
def test_terms_stand_behind_their_words(cases, limit):
    cases = [
        (
            words,
            [
                (min(a, len(words) - 1), min(a + n, len(words) - 1), t, kept)
                for a, n, t, kept in terms
                if words
            ],
        )
        for words, terms in cases
    ]
    count = max(len(terms) for _, terms in cases)
    tokens = [[[*t, *[-1] * (3 - len(t))] for *_, t, _ in terms] for _, terms in cases]
    tokens = [[*row, *[[-1] * 3] * (count - len(row))] for row in tokens]
    spans = [
        [[a, b] for a, b, *_ in terms] + [[-1, -1]] * (count - len(terms)) for _, terms in cases
    ]
    kept = [[x for *_, x in terms] + [False] * (count - len(terms)) for _, terms in cases]
    pieces = [[10 * i + j for i, n in enumerate(words) for j in range(n)] for words, _ in cases]
    word = [[i for i, n in enumerate(words) for _ in range(n)] for words, _ in cases]
    size = len(cases)
    terms = SegmentTerms(
        tf.reshape(tf.constant(tokens, tf.int32), (size, count, 3)),
        tf.reshape(tf.constant(spans, tf.int32), (size, count, 2)),
        tf.ragged.constant(word, tf.int32, ragged_rank=1, row_splits_dtype=tf.int64),
        tf.reshape(tf.constant(kept, tf.bool), (size, count)),
    )
    pieces = tf.ragged.constant(pieces, tf.int32, ragged_rank=1, row_splits_dtype=tf.int64)
    found, found_terms = annotated(pieces, terms, (BEGIN, END), limit)
    expected = [by_hand(*case, limit) for case in cases]
    assert found.to_list() == [[x for x, _ in row] for row in expected]
    assert found_terms.word.to_list() == [[i for _, i in row] for row in expected]


def test_what_lengthens_a_word_is_a_letter_or_a_sign_of_an_address():
    class Pieces:
        def __init__(self, *strings):
            self.target_vocab_size, self._strings = len(strings), tf.constant(strings)

        def id_to_string(self, ids):
            return tf.gather(self._strings, ids)

    tokenizer = Pieces("</s>", "▁ab", "ab", "7", "ä", ".", "日本", "の", "ไทย", "▁", ":")
    joining = [False, False, True, True, True, False, False, False, False, False, False]
    assert continues_word(tokenizer).tolist() == joining
    signs = "#&+/=@\\^_{|~"
    assert continues_word(Pieces("▁", *signs, "/x")).tolist() == [False, *[True] * 13]
    tokenizer = Pieces("▁", *(f"<0x{byte:02X}>" for byte in range(256)))
    joining = [byte > 127 or chr(byte).isalnum() or chr(byte) in signs for byte in range(256)]
    assert continues_word(tokenizer).tolist() == [False, *joining]
    assert continues_word(Pieces("</s>", "a", "b")) is None  # Nothing says where words begin.
