import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mt
from keras_mt.alignment import Shortlist
from keras_mt.inference import Predictor
from keras_mt.inference.graph import _in_batches
from keras_mt.options import TranslationOptions


class Tokens:
    """What a search reads of a tokenizer."""

    padding_id, bos_id, eos_id, forbidden_ids = 0, 2, 3, (0, 2)


def test_a_prefix_may_have_tokens_that_a_shortlist_has_not():
    keras.utils.set_random_seed(5)
    sizes = {"num_layers": 1, "d_model": 8, "num_heads": 2, "d_ff": 16, "max_length": 24}
    models = [keras_mt.Transformer(40, **sizes) for _ in range(2)]
    shortlist = Shortlist(np.repeat(np.arange(4, 12)[None], 40, axis=0), np.array([3]), "")
    found = Predictor(models, shortlist).search(
        Tokens(),
        TranslationOptions(beam_size=3),
        0,
        tf.constant([[7, 8, 9, 3], [9, 3, 0, 0]]),
        tf.constant([3, 1]),
        tf.constant([False] * 2),
        prefix=tf.constant([[30, 6]] * 2),
    )
    for tokens, length in zip(found.tokens[:, 0].numpy(), found.lengths[:, 0], strict=True):
        assert tokens[:2].tolist() == [30, 6] and length > 2
        assert {*tokens[2:length]} <= {3, 30, *range(4, 12)}


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


VARIANTS = {
    "transformer": {},
    "relative": {"positions": "relative"},
    "grouped, rotary": {"positions": "rotary", "num_key_value_heads": 1},
    "recurrence": {"decoder_sublayers": "rcf"},
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("transformer", {"beam_size": 1}, marks=pytest.mark.long),
        ("transformer", {"beam_size": 3, "n_best": 2}),
        *(
            pytest.param(name, {"beam_size": 2, "no_repeat_ngram_size": 2}, marks=pytest.mark.long)
            for name in ("relative", "grouped, rotary", "recurrence", "decoder-only")
        ),
    ],
)
def test_in_blocks_it_finds_the_same(name, options):
    keras.utils.set_random_seed(5)
    sizes = {"num_layers": 1, "d_model": 8, "num_heads": 2, "d_ff": 16, "max_length": 12}
    architecture = keras_mt.Transformer if name in VARIANTS else keras_mt.models.DecoderOnly
    model = architecture(40, **sizes, **VARIANTS.get(name, {}))
    source, lengths = tf.constant([[7, 8, 9, 3], [9, 3, 0, 0]]), tf.constant([3, 1])
    model({"source": source, "target": source})
    predictor, prefix = Predictor([model]), tf.constant([[30, -1, -1], [31, 4, 5]])
    options = TranslationOptions(min_length=9, **options)
    arguments = Tokens(), options, 1, source, lengths, lengths < 0, prefix
    expected, found = (each.search(*arguments) for each in (predictor, predictor.in_place(4)))
    assert expected.lengths[0, 0] >= 9
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    length = expected.tokens.shape[2]
    np.testing.assert_array_equal(found.tokens[:, :, :length], expected.tokens)
    assert not found.tokens[:, :, length:].numpy().any()
