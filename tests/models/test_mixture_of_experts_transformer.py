import re

import keras
import numpy as np
import pytest

from keras_mt.models import MixtureOfExpertsTransformer, Transformer

SMALL = {"vocab_size": 20, "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 32}


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def made(**arguments):
    """A model whose routers and experts are not near to doing nothing."""
    keras.utils.set_random_seed(1)
    model = MixtureOfExpertsTransformer(**{**SMALL, "sparse_step": 1, **arguments})
    for layer in model.mixtures:
        layer.set_weights([2 * w for w in layer.get_weights()])
    return model


def batch(rows=3):
    random = np.random.default_rng(0)
    source, target = random.integers(4, 20, (rows, 6)), random.integers(4, 20, (rows, 5))
    target[:, 0] = 2
    source[1, 4:], target[1, 3:] = 0, 0
    return {"source": source, "target": target}


def test_every_so_many_blocks_have_experts():
    sizes = {**SMALL, "num_encoder_layers": 5, "num_decoder_layers": 1}
    model = MixtureOfExpertsTransformer(**sizes, sparse_step=2)
    assert [layer.name for layer in model.mixtures] == ["encoder_1_experts", "encoder_3_experts"]


def test_the_preset_is_that_of_the_transformer_with_experts():
    options = {"vocab_size": 100, "num_layers": 2}
    dense = Transformer.from_preset("tiny", **options)
    model = MixtureOfExpertsTransformer.from_preset("tiny", **options)
    (d, d_ff), experts, mixtures = (128, 256), 4, 2  # In half of the blocks of both sides.
    more = (experts - 1) * (2 * d * d_ff + d + d_ff) + d * experts  # And the router.
    assert model.count_params() == dense.count_params() + mixtures * more


def test_with_one_expert_it_is_the_transformer():
    arguments = {**SMALL, "pre_norm": True, "gated": True, "activation": "silu"}
    model = made(**arguments, num_experts=1, experts_per_token=1, capacity_factor=1.0)
    dense, inputs = Transformer(**arguments), batch()
    paths = {
        re.sub(r"/\w+_experts/(\w+)_(\w+)", r"/feed_forward/\1/\2", w.path): array(w)
        for w in model.weights
    }
    for weight in dense.weights:
        weight.assign(np.reshape(paths[weight.path], weight.shape))
    real = inputs["target"] > 0
    found, expected = array(model(inputs)), array(dense(inputs))
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_padding_changes_nothing(training):
    model, inputs = made(capacity_factor=0.75, dropout=0.0, balance_weight=1.0), batch()
    found = []
    for padding in (0, 4):
        padded = {name: np.pad(x, ((0, 0), (0, padding))) for name, x in inputs.items()}
        logits = array(model(padded, training=training))[:, :5]
        found.append([logits[inputs["target"] > 0], [float(array(loss)) for loss in model.losses]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert len(model.losses) == (2 if training else 0)
