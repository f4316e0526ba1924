import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mt.inference import Predictor
from keras_mt.inference.graph import _in_batches
from keras_mt.models import DecoderOnly, Transformer, ensure_built
from keras_mt.options import TranslationOptions


class Tokens:
    """What a search reads of a tokenizer."""

    padding_id, bos_id, eos_id, forbidden_ids = 0, 2, 3, (0, 2)


@pytest.mark.parametrize(
    ("rows", "tokens", "sizes"),
    [(256, 64 * 256, [1, 81, 81, 128]), (16, 64 * 16, [1, *[5] * 20, *[16] * 11, 14])],
)
def test_batches_have_so_many_rows_and_tokens(rows, tokens, sizes):
    seen = []

    def function(ids):
        seen.append(int(ids.nrows()))
        return {"lengths": tf.cast(ids.row_lengths()[:, None], tf.int32)}

    lengths = [3, 70_000, *[200] * 100, *[40] * 189]
    ids = tf.ragged.range(lengths)
    empty = {"lengths": tf.zeros((0, 1), tf.int32)}
    found = _in_batches(function, ids.row_lengths(), {"ids": ids}, empty, rows, tokens)
    assert found["lengths"][:, 0].numpy().tolist() == lengths
    assert seen == sizes


SIZES = {"vocab_size": 40, "num_layers": 1, "d_model": 8, "num_heads": 2, "d_ff": 16}


@pytest.mark.parametrize(
    ("variants", "options"),
    [
        ([{}], {"beam_size": 1}),
        (
            [
                {"positions": "relative"},
                {"positions": "rotary", "num_key_value_heads": 1},
                {"decoder_sublayers": "rcf"},
                {"architecture": DecoderOnly},
            ],
            {"beam_size": 2, "n_best": 2, "no_repeat_ngram_size": 2},
        ),
    ],
    ids=["greedy", "ensemble"],
)
def test_in_blocks_it_finds_the_same(variants, options):
    keras.utils.set_random_seed(5)
    makers = [{"architecture": Transformer, **SIZES, "max_length": 7, **own} for own in variants]
    models = [ensure_built(own.pop("architecture")(**own)) for own in makers]
    source, lengths = tf.constant([[7, 8, 9, 3], [9, 3, 0, 0]]), tf.constant([3, 1])
    predictor, prefix = Predictor(models), tf.constant([[30, -1, -1], [31, 4, 5]])
    options = TranslationOptions(min_length=6, **options)
    arguments = Tokens(), options, 1, source, lengths, lengths < 0, prefix
    expected, found = (each.search(*arguments) for each in (predictor, predictor.in_place(3)))
    assert expected.lengths[0, 0] >= 6
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    length = expected.tokens.shape[2]
    np.testing.assert_array_equal(found.tokens[:, :, :length], expected.tokens)
    assert not found.tokens[:, :, length:].numpy().any()
