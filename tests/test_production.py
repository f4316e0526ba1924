"""Graphs as users have them compute what the tests see, whose graphs are not optimized."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf
from conftest import ROOT
from main_paths import trained_and_translated

pytestmark = pytest.mark.long


def test_optimized_graphs_train_translate_and_serve_as_those_of_the_tests(
    eager, run_dir, corpus, sources, tmp_path
):
    texts = sources[:2]
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    process = subprocess.run(
        [sys.executable, ROOT / "tests" / "main_paths.py", run_dir, corpus, tmp_path],
        env={**environment, "PYTHONPATH": str(ROOT)},
        input="\n".join(texts), stdout=subprocess.PIPE, encoding="utf-8", check=True,
    )  # fmt: skip
    found = json.loads(process.stdout.splitlines()[-1])
    assert not found["eager"] and not found["options"].get("disable_meta_optimizer")
    assert tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]

    _, expected = trained_and_translated(run_dir, corpus, tmp_path / "here", texts)
    for row, other in zip(found["log"], expected["log"], strict=True):
        for name in ("loss", "token_accuracy", "val_loss"):
            assert bool(row[name]) == bool(other[name])
            if row[name]:
                assert float(row[name]) == pytest.approx(float(other[name]), rel=1e-3)
    assert float(found["log"][-1]["loss"]) > 0
    assert found["log_prob"] == pytest.approx(expected["log_prob"], abs=1e-2)
    for each in (found["hypotheses"], found["exported"]):
        for (text, score), (other, other_score) in zip(each, expected["hypotheses"], strict=True):
            assert text == other and score == pytest.approx(other_score, abs=1e-3)
