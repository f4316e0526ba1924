import json

import pytest
from command import keras_mt


@pytest.mark.long
def test_train_takes_corpora_and_options_and_average_follows(eager, corpus, micro, tmp_path):
    result = keras_mt(
        "train", "--data", corpus, "--data", "phrasebook",
        "--corpus-weight", 2, "--corpus-weight", 1,
        "--source", "pt", "--target", "en", "--output", tmp_path / "run", "--steps", 2,
        "--vocab-size", 600, "--max-length", 32, "--clean",
        "--subword-sampling", 0.5, "--augment", "caps,punctuation", "--rdrop-weight", 5,
        "--gradient-accumulation-steps", 2, "--clip-norm", 1,
        "--checkpoint-steps", 1, "--learning-rate", 0.001, "--batch-tokens", 256,
        "--preset", micro,
    )  # fmt: skip
    assert "pairs kept" in result.output and "finished at step 2" in result.output
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"] == [str(corpus), "phrasebook"] and config["corpus_weights"] == [2, 1]
    assert config["augment"] == "caps,punctuation"
    keras_mt("average", tmp_path / "run", tmp_path / "averaged", "--last", 2)
    assert {path.name for path in (tmp_path / "averaged").iterdir()} == {
        "model.keras", "tokenizer.model", "config.json", "log.csv",
    }  # fmt: skip
    result = keras_mt("average", tmp_path / "run", tmp_path / "other", "--last", 9, check=False)
    assert result.exit_code == 1 and "has 2 checkpoints, not 9" in result.output
