"""Training adapters alone: what is trained, what is kept, and what is written."""

import json
import shutil

import keras
import numpy as np
import pytest
from conftest import bare_ends, op_by_op
from runs import assert_same_weights, ends, weights

from keras_mt.models import ARCHITECTURES, ensure_built
from keras_mt.models.seq2seq import clone
from keras_mt.run_folder import RunFolder
from keras_mt.training import compile_for_translation, train
from keras_mt.training.checkpoints import average_run
from keras_mt.training.lora import Adapters

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("bare_end")]

LORA = {
    "lora_rank": 2, "max_length": 64, "batch_tokens": 4096, "learning_rate": 1e-2,
    "warmup_steps": 2, "checkpoint_steps": 1, "weights": "best",
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_adapters_alone_are_trained_and_merging_them_changes_nothing(eager, name):
    keras.utils.set_random_seed(1)
    sizes = {"num_layers": 1, "d_model": 16}
    if name != "recurrent":
        sizes |= {"num_heads": 2, "d_ff": 16}
    if name == "mixture_of_experts":
        sizes |= {"sparse_step": 1}
    model = ensure_built(ARCHITECTURES[name](30, dropout=0.1, max_length=8, **sizes))
    tokens = np.random.default_rng(1).integers(4, 30, (8, 6))
    inputs = {"source": tokens, "target": tokens}
    plain, before = list(model.weights), model.get_weights()
    untouched = model(inputs)

    adapters = Adapters(model, rank=2)
    np.testing.assert_array_equal(model(inputs), untouched)
    trained = {id(weight) for weight in model.trainable_variables}
    assert trained == {id(weight) for weight in adapters.weights}
    compile_for_translation(model, learning_rate=0.1, warmup_steps=1)
    model.fit(inputs, tokens, batch_size=8, epochs=2, verbose=0)
    assert_same_weights([w.numpy() for w in plain], before)
    for weight in adapters.weights:
        assert np.any(weight.numpy())
    state = sum(np.prod(v.shape) for v in model.optimizer.variables if len(v.shape))
    assert state == 2 * sum(np.prod(weight.shape) for weight in adapters.weights)

    merged = clone(model)
    merged.set_weights(adapters.merged())
    np.testing.assert_allclose(merged(inputs), model(inputs), atol=1e-5)
    assert np.max(np.abs(merged(inputs) - untouched)) > 0.1


@pytest.fixture(scope="module")
def base(run_dir, tmp_path_factory):
    return shutil.copytree(run_dir, tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="module")
def tuned(brief_corpus, base, tmp_path_factory):
    """An epoch of a step, and a second of the run that goes on; the weights at each end."""
    output = tmp_path_factory.mktemp("tuned") / "run"
    options = {"data": brief_corpus, "source": "pt", "target": "en", "init": base, **LORA}
    with op_by_op(), bare_ends():
        found = ends(output, 1, 2, **options)
    return output, found


def test_checkpoints_hold_the_adapters_and_the_folder_a_plain_model(base, tuned):
    output, (_, last) = tuned
    model = RunFolder(output).load_model()
    assert not any("lora" in weight.path for weight in model.weights)
    assert model.count_params() == RunFolder(base).load_model().count_params()
    changed = [not np.array_equal(*pair) for pair in zip(weights(base), last, strict=True)]
    assert changed == [w.path.endswith("/kernel") for w in model.weights]
    size = sum(p.stat().st_size for p in (output / "checkpoints").glob("step-2.*"))
    # Of each adapter its value and two moments; all weights would be four bytes each, thrice.
    assert size < 0.15 * 12 * model.count_params()


def test_averaging_is_of_the_weights_and_not_of_their_factors(tuned, tmp_path):
    output, found = tuned
    average_run(output, tmp_path / "averaged", last=2)
    means = [np.mean(each, axis=0) for each in zip(*found, strict=True)]
    assert_same_weights(tmp_path / "averaged", means, atol=1e-6)


def test_the_best_adapters_are_written_merged(tuned):
    output, (_, last) = tuned
    copy = clone(RunFolder(output).load_model())
    copy.load_weights(output / "checkpoints" / "best.weights.h5")
    assert_same_weights(copy, last)


def test_other_weights_under_the_adapters_are_refused(eager, brief_corpus, base, tuned, tmp_path):
    output = shutil.copytree(tuned[0], tmp_path / "run")
    other = shutil.copytree(base, tmp_path / "base")
    model = RunFolder(other).load_model()
    RunFolder(other).save_model(model, [weight + 1e-3 for weight in model.get_weights()])
    kept = json.loads((output / "config.json").read_text())
    kept["init"] = str(other)
    (output / "config.json").write_text(json.dumps(kept))
    with pytest.raises(ValueError, match="have changed since the run began"):
        train(brief_corpus, "pt", "en", output, init=other, steps=4, **LORA)
    with pytest.raises(ValueError, match="have changed since the run began"):
        average_run(output, tmp_path / "averaged", last=1)
    with pytest.raises(ValueError, match="lora_rank was 2, now 3"):
        train(brief_corpus, "pt", "en", tuned[0], init=base, steps=4, **{**LORA, "lora_rank": 3})
