"""The Transformer of pretrained models, in the switches that no preset has.

tests/convert holds it to what transformers computes.
"""

import numpy as np
import pytest
from backends import numpy
from elsewhere import INPUTS, decoded

from keras_mt.models import PretrainedTransformer, built

UNLIKE = {
    "vocab_size": 20,
    "d_model": 16,
    "dropout": 0.0,
    "num_encoder_layers": 1,
    "num_decoder_layers": 3,
    "num_encoder_heads": 2,
    "num_decoder_heads": 4,
    "encoder_d_ff": 24,
    "decoder_d_ff": 40,
    "positions": "fairseq",
    "pre_norm": True,
    "scale_embeddings": False,
    "logits_bias": False,
}
NORMALIZED = {"normalize_embeddings": True, "positions": "marian", "pre_norm": False}
APART = {"share_embeddings": False, "target_vocab_size": 33, "tie_output": False}


@pytest.mark.parametrize(
    "more",
    [
        {},
        APART,
        {
            "normalize_embeddings": True,
            "positions": "marian",
            "pre_norm": False,
            "final_norm": True,
        },
    ],
)
def test_step_by_step_equals_the_whole_sequence(more):
    model = built(PretrainedTransformer(**UNLIKE | more))
    logits = numpy(model(INPUTS))
    assert logits.shape[-1] == model.target_vocab_size == more.get("target_vocab_size", 20)
    np.testing.assert_allclose(decoded(model), logits, atol=1e-5)


def test_each_side_normalises_its_embeddings_by_itself(tmp_path):
    model = built(PretrainedTransformer(**UNLIKE | {"normalize_embeddings": True}))
    gammas = [w for w in model.weights if "embedding/norm/gamma" in w.path]
    tables = [w for w in model.weights if w.path.endswith("embeddings")]
    assert len(gammas) == 2 and len(tables) == 1
    gammas[0].assign(2 * numpy(gammas[0].value))
    model.save(tmp_path / "model.keras")
    copy = type(model).from_config(model.get_config())
    copy.load_weights(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(copy(INPUTS)), numpy(model(INPUTS)), atol=1e-6)
    np.testing.assert_allclose(
        numpy(model.for_inference()(INPUTS)), numpy(model(INPUTS)), atol=1e-5
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"target_vocab_size": 21}, "share_embeddings needs one vocabulary"),
        ({"positions": "learned"}, "positions must be one of"),
        ({"num_decoder_heads": 3}, "num_decoder_heads=3"),
        ({"encoder_d_ff": 0}, "encoder_d_ff must be a positive int"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        PretrainedTransformer(**UNLIKE | arguments)
