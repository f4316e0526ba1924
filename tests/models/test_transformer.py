import keras
import numpy as np
import pytest
from backends import numpy
from elsewhere import INPUTS, SOURCE, TARGET, decoded
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_mt import Transformer, WarmupInverseSquareRoot
from keras_mt.losses import CrossEntropy
from keras_mt.metrics import Perplexity, TokenAccuracy
from keras_mt.models import PRESETS

random = np.random.default_rng(0)
SMALL = {"vocab_size": 20, "num_layers": 2, "d_model": 16, "num_heads": 2, "d_ff": 32}
ONE = {**SMALL, "num_layers": 1}
exhaustive = [pytest.mark.long, pytest.mark.exhaustive]
SUBLAYERS = {"encoder_sublayers": "ssfsff", "decoder_sublayers": "scscff", "pre_norm": True}


def batch(rows=3):
    source, target = random.integers(4, 20, (rows, 6)), random.integers(4, 20, (rows, 5))
    target[:, 0] = 2
    source[1, 4:], target[1, 3:] = 0, 0
    return {"source": source, "target": target}


def parameters(vocab_size, layers, d, d_ff):
    """Counted by hand: projections with biases, norms, one shared embedding."""
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * d_ff + d_ff + d, 2 * d
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return vocab_size * d + layers * (encoder + decoder)


def test_presets_have_the_papers_sizes_and_regularization():
    sizes = {name: [*PRESETS[name]["model"].values()][:2] for name in ("tiny", "small")}
    assert sizes == {"tiny": [4, 128], "small": [4, 256]}
    # Vaswani et al. 2017, table 3.
    for preset, *papers in (("base", 6, 512, 8, 2048, 0.1), ("big", 6, 1024, 16, 4096, 0.3)):
        names = "num_layers", "d_model", "num_heads", "d_ff", "dropout"
        assert PRESETS[preset]["model"] == dict(zip(names, papers, strict=True))
        assert PRESETS[preset]["training"]["label_smoothing"] == 0.1


def test_a_preset_takes_arguments():
    sizes = {**PRESETS["tiny"]["model"], "num_layers": 1}
    model = Transformer.from_preset("tiny", vocab_size=50, num_layers=1)
    assert model.count_params() == parameters(50, 1, sizes["d_model"], sizes["d_ff"])
    assert {name: model.get_config()[name] for name in sizes} == sizes


def test_it_is_functional():
    model = Transformer(**ONE)
    assert model.output_shape == (None, None, 20) and model.output.dtype == "float32"
    assert set(model.input) == {"source", "target"}


def test_layers_stay_frozen_in_a_file_and_their_optimizer_goes_on(tmp_path):
    model = Transformer(**ONE)
    model.source_embedding.trainable = False
    model.encoder_stack.blocks[0].trainable = False
    model.compile("adam", CrossEntropy(), run_eagerly=True)
    inputs = batch()
    model.fit(inputs, inputs["target"], verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    frozen = [layer.name for layer in loaded.layers if not layer.trainable]
    assert frozen == ["embedding", "encoder_0"]
    assert len(loaded.trainable_weights) == len(model.trainable_weights) < len(model.weights)
    for mine, other in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_embeddings_are_shared_three_ways_unless_asked_otherwise():
    def tables(model):
        return [w for w in model.weights if "embeddings" in w.path]

    assert len(tables(Transformer(**ONE))) == 1
    assert len(tables(Transformer(**ONE, share_embeddings=False))) == 2


def test_attention_is_that_of_a_head_or_the_mean_of_the_last_layers():
    model = Transformer(**ONE, decoder_sublayers="scscff", alignment_head=(0, 1))
    cross = [numpy(each) for each in model.attention_scores(SOURCE, TARGET)["cross"]]
    np.testing.assert_allclose(numpy(model.attention(SOURCE, TARGET)), cross[0][:, 1], atol=1e-6)
    assert model.get_config()["alignment_head"] == [0, 1]
    model.alignment_head = None
    mean = cross[-1].mean(axis=1)
    np.testing.assert_allclose(numpy(model.attention(SOURCE, TARGET)), mean, atol=1e-6)
    assert model.get_config()["alignment_head"] is None


def test_a_batch_with_alignments_adds_their_loss_in_training_alone():
    model = Transformer(**SMALL, **SUBLAYERS, dropout=0.0, alignment_head=(1, 1))
    inputs = batch()
    links = random.random((3, 5, 6)) < 0.3
    links[1, 3:], links[1, :, 4:] = False, False
    guided = {**inputs, "alignment": links}
    logits = numpy(model(guided))
    assert not model.losses
    np.testing.assert_allclose(numpy(model(guided, training=True)), logits, atol=1e-5)
    shares = links / np.maximum(links.sum(axis=-1, keepdims=True), 1)
    attention = numpy(model.attention(inputs["source"], inputs["target"]))
    expected = -0.05 * (shares * np.log(attention + 1e-6)).sum() / (inputs["target"] != 0).sum()
    (loss,) = model.losses
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    model.alignment_head = None  # Then there is nothing to guide.
    model(guided, training=True)
    assert not model.losses


def test_an_argument_that_there_is_not_is_refused_by_name():
    with pytest.raises(TypeError, match="Transformer has no argument 'num_head'"):
        Transformer.from_preset("tiny", vocab_size=9, num_head=2)


@pytest.mark.parametrize("head", [(2, 0), (0, 2), (-1, 0), (0,), "ab", 1, (0.5, 1)])
def test_an_alignment_head_that_there_is_not_is_refused_by_name(head):
    with pytest.raises(ValueError, match="alignment_head must be a layer from 0 to 1 and a head"):
        Transformer(**SMALL, alignment_head=head)


OPTIONS = {
    "pre_norm": st.booleans(),
    "norm": st.sampled_from(["layer", "rms"]),
    "positions": st.sampled_from(["sinusoidal", "learned", "rotary", "relative", None]),
    "activation": st.sampled_from(["relu", "gelu", "silu"]),
    "gated": st.booleans(),
    "num_key_value_heads": st.sampled_from([None, 1, 2]),
    "key_dim": st.sampled_from([None, 6]),
    "share_embeddings": st.booleans(),
    "tie_output": st.booleans(),
    "num_encoder_layers": st.integers(1, 2),
    "decoder_sublayers": st.sampled_from([None, "cfs", "ssccff", "scf" + "csf", "rcf", "srcf"]),
}


@settings(max_examples=settings.default.max_examples // 2)
@given(st.fixed_dictionaries(OPTIONS))
def test_step_by_step_equals_the_whole_sequence_whatever_the_options(options):
    sizes = {**ONE, "num_heads": 4, "d_ff": 8}
    model, inputs = Transformer(**sizes, **options), batch()
    logits = numpy(model(inputs))
    real = np.arange(5) < [[5], [3], [5]]  # Row 1 ends after three tokens.
    np.testing.assert_allclose(decoded(model, **inputs)[real], logits[real], atol=1e-5)


@pytest.mark.parametrize("order", ["srcfr", pytest.param("rcf" * 2, marks=exhaustive)])
def test_each_hypothesis_keeps_its_own_state_of_a_recurrence(order):
    model, random = Transformer(**ONE, decoder_sublayers=order), np.random.default_rng(3)
    source, tokens = batch(rows=2)["source"], np.full((2, 3, 1), 2)
    cache, ancestors = model.start_decoding(source, beams=3), np.zeros((2, 3, 0), int)
    for i in range(4):
        itself = np.broadcast_to(np.arange(3)[:, None], (2, 3, 1))
        ancestors = np.concatenate([ancestors, itself], axis=-1)
        mask = (ancestors[..., None] == np.arange(3)).reshape(2, 3, -1)
        step, cache = model.decode_step(tokens[..., -1], i, cache, mask)
        each = {"source": np.repeat(source, 3, axis=0), "target": tokens.reshape(6, -1)}
        whole = numpy(model(each))[:, -1].reshape(2, 3, -1)
        np.testing.assert_allclose(numpy(step), whole, atol=1e-5)
        parents, new = random.integers(0, 3, (2, 3)), random.integers(4, 20, (2, 3, 1))
        cache = model.reorder_cache(cache, parents)
        ancestors = np.take_along_axis(ancestors, parents[..., None], 1)
        tokens = np.take_along_axis(tokens, parents[..., None], 1)
        tokens = np.concatenate([tokens, new], axis=-1)


def softmax_of_heads(attention, queries, keys, seen):
    """The weights of an attention layer, in NumPy, by its kernels and biases."""

    def heads(x, dense):
        kernel, bias = dense.get_weights()
        x = np.reshape(np.asarray(x) @ kernel + bias, (*x.shape[:2], attention.num_heads, -1))
        return x.transpose(0, 2, 1, 3)

    queries, keys = heads(queries, attention.query_dense), heads(keys, attention.key_dense)
    scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(queries.shape[-1])
    scores = np.exp(np.where(seen, scores, -np.inf))
    return scores / scores.sum(-1, keepdims=True)


def test_attention_scores_are_the_softmax_of_every_block_and_head():
    inputs = batch()
    model = Transformer(**SMALL)
    found = model.attention_scores(**inputs)
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(found, 2)
    source_seen = (inputs["source"] != 0)[:, None, None]
    own_seen = np.tril(np.ones((5, 5), bool)) & (inputs["target"] != 0)[:, None, None]
    memory = model.encode(inputs["source"])
    hidden = model.source_embedding(inputs["source"])
    for block, scores in zip(model.encoder_stack.blocks, found["encoder"], strict=True):
        expected = softmax_of_heads(block.self_attention, hidden, hidden, source_seen)
        np.testing.assert_allclose(scores, expected, atol=1e-5)
        hidden = block(hidden)
    hidden = model.target_embedding(inputs["target"])
    for block, own, cross in zip(
        model.decoder_stack.blocks, found["decoder"], found["cross"], strict=True
    ):
        expected = softmax_of_heads(block.self_attention, hidden, hidden, own_seen)
        np.testing.assert_allclose(own, expected, atol=1e-5)
        middle = block.self_attention_norm(hidden + block.self_attention(hidden))
        expected = softmax_of_heads(block.cross_attention, middle, memory, source_seen)
        np.testing.assert_allclose(cross, expected, atol=1e-5)
        hidden = block(hidden, memory)
    np.testing.assert_allclose(model.attention(**inputs), np.array(cross).mean(1), atol=1e-6)


def test_attention_scores_are_of_the_sublayers_that_there_are():
    model = Transformer(**SMALL, encoder_sublayers="ssfsff", decoder_sublayers="cscff")
    found = model.attention_scores(**batch())
    assert [len(found[name]) for name in ("encoder", "decoder", "cross")] == [3, 1, 2]
    for scores in found.values():
        for each in scores:
            np.testing.assert_allclose(np.array(each).sum(-1), 1, atol=1e-5)


@pytest.mark.long
def test_it_learns_to_copy_with_plain_compile_and_fit(monkeypatch):
    step, traces = Transformer.train_step, []
    monkeypatch.setattr(
        Transformer, "train_step", lambda *arguments: traces.append(1) or step(*arguments)
    )
    keras.utils.set_random_seed(1)
    model = Transformer(**{**ONE, "d_model": 32, "dropout": 0.0})
    source = random.integers(4, 8, (64, 3))
    start = np.full((64, 1), 2)
    inputs = {"source": source, "target": np.concatenate([start, source[:, :-1]], axis=1)}
    model.compile(
        keras.optimizers.Adam(WarmupInverseSquareRoot(32, 10, peak=0.01), 0.9, 0.98, 1e-9),
        CrossEntropy(),
        metrics=[TokenAccuracy(), Perplexity()],
        jit_compile=False,
    )
    scores = model.fit(inputs, source, batch_size=64, epochs=70, verbose=0).history
    assert scores["token_accuracy"][-1] > 0.95
    np.testing.assert_allclose(scores["perplexity"], np.exp(scores["loss"]), rtol=1e-3)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_heads": 3}, "width=16, num_heads=3"),
        ({"d_model": 15, "num_heads": 3}, "d_model=15"),
        ({"dropout": 1.5}, "dropout=1.5"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"d_ff": -1}, "d_ff=-1"),
        ({"encoder_d_ff": 0}, "encoder_d_ff must be a positive int"),
        ({"num_decoder_heads": 3}, "width=16, num_heads=3"),
        ({"target_vocab_size": 21}, "share_embeddings needs one vocabulary"),
        ({"encoder_sublayers": "sxf"}, "encoder_sublayers='sxf'"),
        ({"decoder_sublayers": "sf"}, "with a c.*decoder_sublayers='sf'"),
        ({"positions": "alibi"}, "positions must be one of .*'relative'.*positions='alibi'"),
        ({"norm": "batch"}, "norm='batch'"),
    ],
)
def test_impossible_arguments_are_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        Transformer(**{**SMALL, **wrong})


def test_each_side_normalises_its_embeddings_by_itself(tmp_path):
    model = Transformer(**ONE, normalize_embeddings=True)
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
