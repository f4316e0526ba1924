import itertools
from pathlib import Path

import numpy as np
import pytest

from keras_mt.models import Recurrent
from keras_mt.models.recurrent import ATTENTIONS, CELLS

GOLDEN = Path(__file__).parent / "golden" / "recurrent.npz"
SMALL = {"vocab_size": 20, "num_layers": 2, "d_model": 16, "padding_id": 19}
random = np.random.default_rng(0)
EXHAUSTIVE = [pytest.mark.long, pytest.mark.exhaustive]


def kinds(condition):
    """Cells and attentions, of which those are exhaustive that do not meet the condition."""
    return pytest.mark.parametrize(
        ("cell", "attention"),
        [
            pytest.param(*kind, marks=[] if condition(*kind) else EXHAUSTIVE)
            for kind in itertools.product(CELLS, ATTENTIONS)
        ],
    )


def set_cell(cell, weights, side, place):
    """Sets PyTorch's weights of a layer in a Keras cell."""
    order = [1, 0, 2] if "gru" in cell.name else [0, 1, 2, 3]  # PyTorch's reset gate is first.
    arrays = []
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        gates = np.split(weights[f"{side}.{name}_{place}"], len(order))
        arrays.append(np.concatenate([gates[i] for i in order]))
    kernel, recurrent, *biases = arrays
    bias = np.stack(biases) if "gru" in cell.name else sum(biases)
    cell.set_weights([kernel.T, recurrent.T, bias])


# The attentions do not depend on the cell: one of the cells has them all.
@kinds(lambda cell, attention: cell == "gru" or attention == "none")
def test_it_computes_what_pytorch_does(cell, attention):
    golden, kind = np.load(GOLDEN), f"{cell} {attention} "
    weights = {n.removeprefix(kind): golden[n] for n in golden.files if n.startswith(kind)}
    one_table = cell == "gru"
    model = Recurrent(
        11, 2, 6, cell=cell, attention=attention, padding_id=10,
        share_embeddings=one_table, tie_output=one_table,
    )  # fmt: skip
    for i in range(2):
        encoder, decoder = model.encoder_layers[i], model.decoder_layers[i]
        set_cell(encoder.forward_layer.cell, weights, "encoder", f"l{i}")
        set_cell(encoder.backward_layer.cell, weights, "encoder", f"l{i}_reverse")
        set_cell(decoder.cell, weights, "decoder", f"l{i}")
    model.source_embedding.embeddings.assign(weights["source.weight"])
    if not one_table:
        model.target_embedding.embeddings.assign(weights["target.weight"])
        model.target_embedding.reverse_embeddings.assign(weights["output.weight"].T)
    if attention == "additive":
        model.query_projection.kernel.assign(weights["query.weight"].T)
        model.attention_layer.scale.assign(weights["v"])
    if attention in ("additive", "bilinear"):
        model.key_projection.kernel.assign(weights["key.weight"].T)
    if attention != "none":
        model.combination.kernel.assign(weights["combination.weight"].T)
        model.combination.bias.assign(weights["combination.bias"])
    inputs = {name: golden[name] for name in ("source", "target")}
    np.testing.assert_allclose(model(inputs), weights["logits"], atol=1e-5)
    found = model.attention(**inputs)
    if attention == "none":
        assert found is None
        return
    np.testing.assert_allclose(found, weights["attention"], atol=1e-5)
    np.testing.assert_allclose(np.array(found).sum(-1), 1, atol=1e-5)
    assert np.array(found)[1, :, 2:].max() == 0  # Its source has two tokens.


# Nor do steps depend on the attention.
@kinds(lambda cell, attention: attention == {"gru": "additive", "lstm": "none"}[cell])
@pytest.mark.parametrize(
    "num_layers", [2, pytest.param(1, marks=EXHAUSTIVE), pytest.param(3, marks=EXHAUSTIVE)]
)
def test_steps_of_reordered_hypotheses_equal_the_whole_sequence(cell, attention, num_layers):
    model = Recurrent(20, num_layers, 16, cell=cell, attention=attention, padding_id=19)
    rows, beams, length = 3, 2, 3
    source = random.integers(0, 19, (rows, 4))
    source[1, 2:] = 19  # The padding.
    history = random.integers(0, 19, (rows, beams, length))
    history[:, :, 0] = 19
    cache = model.start_decoding(source, beams)
    for i in range(length):
        logits, cache = model.decode_step(history[:, :, i], i, cache)
        flat = history[:, :, : i + 1].reshape(rows * beams, -1)
        whole = model({"source": np.repeat(source, beams, axis=0), "target": flat})
        np.testing.assert_allclose(
            logits, np.array(whole)[:, -1].reshape(rows, beams, -1), atol=1e-5
        )
        parents = random.integers(0, beams, (rows, beams)).astype("int32")
        cache = model.reorder_cache(cache, parents)
        own = np.take_along_axis(history, parents[..., None], axis=1)
        history[:, :, : i + 1] = own[:, :, : i + 1]


def parameters(vocab_size, layers, d, gates, biases, attention):
    """Counted by hand."""
    encoder = 2 * gates * (d // 2) * (d + d // 2 + biases)
    decoder = gates * d * (d + d + biases)
    return vocab_size * d + layers * (encoder + decoder) + 2 * d * d + d + attention


def test_presets_have_their_sizes():
    # Luong et al. 2015, section 4.1.
    papers = {"num_layers": 4, "d_model": 1000, "dropout": 0.2}
    assert Recurrent.presets["luong"]["model"].items() >= papers.items()
    model = Recurrent.from_preset("luong", vocab_size=50, num_layers=2, d_model=10)
    assert model.count_params() == parameters(50, 2, 10, 4, 1, 10 * 10)
    tiny = Recurrent.presets["tiny"]["model"]
    model = Recurrent.from_preset("tiny", vocab_size=50, num_layers=1)
    d = tiny["d_model"]
    assert model.count_params() == parameters(50, 1, d, 3, 2, 2 * d * d + d)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cell": "rnn"}, "cell must be one of 'gru', 'lstm'. Received: cell='rnn'"),
        ({"attention": None}, "attention must be one of 'additive', .*attention=None"),
        ({"d_model": 15}, "d_model=15"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"max_length": 0}, "max_length=0"),
    ],
)
def test_impossible_arguments_are_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        Recurrent(**{**SMALL, **wrong})
