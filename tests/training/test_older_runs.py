"""Run folders of releases before this one go on as they would have then."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from keras_mt import Translator
from keras_mt.models import PRESETS
from keras_mt.training import train

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("eager")]

OPTIONS = {
    "vocab_size": 400, "max_length": 48, "batch_tokens": 384, "warmup_steps": 20,
    "rdrop_weight": 1.0, "checkpoint_steps": 4, "keep": 2, "average_checkpoints": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    "release", ["release", pytest.param("before", marks=pytest.mark.exhaustive)]
)
def test_a_run_folder_of_a_release_goes_on_to_the_same_weights(release, tmp_path, monkeypatch):
    small = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16}
    tiny = {**PRESETS["tiny"], "model": {**PRESETS["tiny"]["model"], **small}}
    monkeypatch.setitem(PRESETS, "tiny", tiny)
    with tarfile.open(Path(__file__).parent / "golden" / f"{release}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = np.load(tmp_path / "expected.npz")

    found = Translator.load(tmp_path / "run").hypotheses(expected["sources"].tolist())
    assert [hypotheses[0].text for hypotheses in found] == expected["translations"].tolist()
    scores = [hypotheses[0].score for hypotheses in found]
    np.testing.assert_allclose(scores, expected["scores"], atol=1e-4)

    messages = []
    corpus = tmp_path / "corpus.tsv"  # The run knows it by another path.
    train(
        corpus, "pt", "en", tmp_path / "run", steps=12, **OPTIONS, report=messages.append
    )  # fmt: skip
    assert any("resumed at step 8" in message for message in messages)
    assert any("without the corpora's fingerprints" in message for message in messages)
    weights = Translator.load(tmp_path / "run").models[0].weights
    for i, weight in enumerate(weights):
        # Attention cancels the biases of keys, and Adam makes steps of their rounding.
        if not weight.path.endswith("key/bias"):
            np.testing.assert_allclose(weight, expected[f"arr_{i}"], atol=2e-4, err_msg=weight.path)
