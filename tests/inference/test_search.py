import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mt
from keras_mt.alignment import Shortlist
from keras_mt.decoding import NO_HYPOTHESIS, Constraints
from keras_mt.inference.predictors import Predictor
from keras_mt.inference.search import in_batches, search
from keras_mt.options import TranslationOptions


class Tokens:
    """What a search reads of a tokenizer."""

    padding_id, bos_id, eos_id, forbidden_ids = 0, 2, 3, (0, 2)


def models(count):
    keras.utils.set_random_seed(5)
    sizes = {"num_layers": 1, "d_model": 8, "num_heads": 2, "d_ff": 16, "max_length": 24}
    return [keras_mt.Transformer(40, **sizes) for _ in range(count)]


@pytest.mark.parametrize(
    ("count", "short", "prefix"),
    [
        (2, True, [[6, 7]] * 3),
        pytest.param(1, False, None, marks=[pytest.mark.long, pytest.mark.exhaustive]),
    ],
)
def test_terms_with_a_shortlist_an_ensemble_and_a_prefix(count, short, prefix):
    table = np.repeat(np.arange(4, 12)[None], 40, axis=0)
    shortlist = Shortlist(table, np.array([3]), "") if short else None
    terms = [[[30, 31], [5]], [[33, 34, 35], [-1]], [[-1], [-1]]]
    tokens = np.array([[term + [-1] * (3 - len(term)) for term in row] for row in terms], np.int32)
    source = tf.constant([[7, 8, 9, 3], [7, 8, 3, 0], [9, 3, 0, 0]])
    places = np.zeros((3, 2, 4), bool)
    places[:, 0, 1] = True
    constraints = Constraints(
        tf.constant(tokens),
        tf.constant(places),
        tf.range(40) >= 36,  # Never at hand after a term.
    )
    arguments = (
        Predictor(models(count), shortlist),
        Tokens(),
        TranslationOptions(beam_size=3),
        source,
        tf.constant([3, 2, 1]),
        tf.constant([False] * 3),
    )
    prefix = prefix and tf.constant(prefix)
    found = search(*arguments, constraints=constraints, prefix=prefix)
    plain = search(*arguments, prefix=prefix)
    assert np.all(found.scores > NO_HYPOTHESIS)
    texts = [" ".join(map(str, row)) for row in found.tokens[:, 0].numpy()]
    assert "30 31" in texts[0] and "5" in texts[0].split() and "33 34 35" in texts[1]
    length = int(plain.lengths[2, 0])
    np.testing.assert_array_equal(found.tokens[2, 0, :length], plain.tokens[2, 0, :length])
    if prefix is not None:
        assert all(text.startswith("6 7") for text in texts)


@pytest.mark.parametrize(
    ("beams", "sizes"), [(4, [1, 81, 81, 128]), (64, [1, *[5] * 20, *[16] * 11, 14])]
)
def test_batches_are_smaller_where_beams_are_many(beams, sizes):
    seen = []

    def function(rows):
        seen.append(int(rows.nrows()))
        return {"lengths": tf.cast(rows.row_lengths()[:, None], tf.int32)}

    lengths = [3, 70_000, *[200] * 100, *[40] * 189]
    rows = tf.ragged.range(lengths)
    empty = {"lengths": tf.zeros((0, 1), tf.int32)}
    found = in_batches(function, rows, {}, empty, {}, beams)
    assert found["lengths"][:, 0].numpy().tolist() == lengths
    assert seen == sizes
