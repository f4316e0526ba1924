"""The attention of each step of a search, which hard constraints and placeholders need."""

import numpy as np
import pytest
import tensorflow as tf

from keras_mt.alignment import Shortlist
from keras_mt.decoding import beam_search
from keras_mt.inference.predictors import Predictor
from keras_mt.models import DecoderOnly, Recurrent, Transformer, ensure_built

SIZES = {"vocab_size": 20, "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 32}
SOURCE = tf.constant([[5, 3, 7, 3], [3, 4, 3, 0]])
TARGET = tf.constant([[2, 5, 11, 6], [2, 9, 3, 4]])
SHORTLIST = Shortlist(np.tile(np.arange(4, 12)[None], (20, 1)), np.arange(4), "")


def steps(predictor, attention=True):
    """The attention of the steps of a search with one beam, `[rows, target, source]`."""
    predictor = predictor.for_batch(SOURCE, [0, 2, 3], None, attention=attention)
    cache, found = predictor.start(SOURCE, 1), []
    for i in range(TARGET.shape[1]):
        tokens = predictor.index(TARGET[:, i : i + 1])
        cache = predictor.step(tokens, tf.constant(i), cache, None)[1]
        found.append(cache["attention"])
    return np.concatenate(found, axis=1)


def test_it_is_the_mean_over_the_models_that_have_one():
    head = Transformer(**SIZES, alignment_head=(0, 1))
    mean, other = Transformer(**SIZES), ensure_built(DecoderOnly(**SIZES))
    expected = (head.attention(SOURCE, TARGET) + mean.attention(SOURCE, TARGET)) / 2
    for predictor in (
        Predictor([head, other, mean]),
        Predictor([head, other, mean], SHORTLIST),
        Predictor([head, other, mean]).frozen("", ""),
    ):
        np.testing.assert_allclose(steps(predictor), expected, atol=1e-5)
    np.testing.assert_allclose(steps(Predictor([head])), head.attention(SOURCE, TARGET), atol=1e-5)


def test_a_cache_has_none_unless_it_is_asked_for_and_there_is_one():
    model = Transformer(**SIZES)
    assert Predictor([model]).step_attention
    for models, attention in [
        ([model], False),
        ([ensure_built(DecoderOnly(**SIZES))], True),
        ([Recurrent(20, d_model=8, attention="none")], True),
    ]:
        predictor = Predictor(models)
        assert predictor.step_attention != attention
        predictor = predictor.for_batch(SOURCE, [0, 2, 3], None, attention=attention)
        cache = predictor.start(SOURCE, 1)
        assert "attention" not in cache
        assert "attention" not in predictor.step(TARGET[:, :1], 0, cache, None)[1]


@pytest.mark.parametrize("frozen", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_search_that_drops_finished_rows_goes_on_with_it(frozen):
    model = Transformer(**SIZES)
    predictor = Predictor([model, model])
    if frozen:
        predictor = predictor.frozen("", "")

    @tf.function
    def search(source, attention):
        each = predictor.for_batch(source, [0, 2, 3], None, attention=attention)
        return beam_search(
            each.step,
            each.start(source, 3),
            tf.constant([3, 7]),
            bos_id=2,
            eos_id=3,
            padding_id=0,
            beam_size=3,
            reorder=each.reorder,
            normalize=False,
        )

    for got, expected in zip(search(SOURCE, True), search(SOURCE, False), strict=True):
        np.testing.assert_array_equal(got, expected)
