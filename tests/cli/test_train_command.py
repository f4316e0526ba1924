import json

import pytest
from command import keras_mt


@pytest.mark.usefixtures("untrained", "bare_end")
def test_train_takes_corpora_and_options_and_average_follows(corpus, micro, tmp_path):
    other = tmp_path / "other.tsv"
    other.write_text("O livro é novo.\tThe book is new.\n")
    result = keras_mt(
        "train", "--data", corpus, "--data", other,
        "--corpus-weight", 2, "--corpus-weight", 1,
        "--source", "pt", "--target", "en", "--output", tmp_path / "run", "--steps", 2,
        "--vocab-size", 600, "--max-length", 32, "--clean",
        "--subword-sampling", 0.5, "--augment", "caps,punctuation", "--rdrop-weight", 5,
        "--gradient-accumulation-steps", 2, "--clip-norm", 1,
        "--checkpoint-steps", 1, "--learning-rate", 0.001, "--batch-tokens", 256,
        "--preset", micro,
    )  # fmt: skip
    assert "pairs kept" in result.output and "finished at step 0" in result.output
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    expected = {
        "data": [str(corpus), str(other)], "corpus_weights": [2, 1], "vocab_size": 600,
        "max_length": 32, "clean": True, "subword_sampling": 0.5, "augment": "caps,punctuation",
        "rdrop_weight": 5, "gradient_accumulation_steps": 2, "clip_norm": 1, "learning_rate": 0.001,
        "batch_tokens": 256, "preset": micro,
    }  # fmt: skip
    assert {name: config[name] for name in expected} == expected
    keras_mt("average", tmp_path / "run", tmp_path / "averaged", "--last", 1)
    assert {path.name for path in (tmp_path / "averaged").iterdir()} == {
        "model.keras", "tokenizer.model", "config.json",
    }  # fmt: skip
    result = keras_mt("average", tmp_path / "run", tmp_path / "other", "--last", 9, check=False)
    assert result.exit_code == 1 and "has 1 checkpoints, not 9" in result.output
