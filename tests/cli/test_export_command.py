import json

import pytest
from command import keras_mt

from keras_mt import ExportedTranslator
from keras_mt.convert.formats import FORMATS, load_format


@pytest.mark.parametrize("other", ["ctranslate2", "argos"])
def test_a_format_without_a_search_takes_no_options_of_it(other, run_dir, tmp_path):
    options = ["--n-best", 3, "--max-length", 5]
    result = keras_mt("export", run_dir, tmp_path / "out", "--format", other, *options, check=False)
    assert result.exit_code == 2 and "leave --n-best, --max-length out" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("other", [name for name in FORMATS if name != "saved_model"])
def test_a_format_refuses_what_it_would_ignore(other, run_dir, tmp_path):
    """Of formats without texts, the splitting of texts; of each, the options of others."""
    names = {"split_sentences": "split-sentences", "signatures": "signatures=greedy"}
    flags = [flag for name, flag in names.items() if name not in load_format(other).holds]
    assert flags
    for flag in flags:
        options = ["--format", other, f"--{flag}"]
        result = keras_mt("export", run_dir, tmp_path / "out", *options, check=False)
        assert result.exit_code == 2
        assert f"leave --{flag.partition('=')[0]} out: --format {other} " in " ".join(
            result.stderr.split()
        )
    assert not list(tmp_path.iterdir())


def test_export_takes_options(run_dir, tmp_path):
    directory = tmp_path / "pt_en" / "1"
    search = ("--beam-size", 1, "--max-length", 3)
    rest = ("--dtype", "float16", "--signatures", "serving_default", "--card", "license=mit")
    keras_mt("export", run_dir, directory, *search, *rest)
    assert "greedy" not in ExportedTranslator(directory)._engine.outputs
    card = json.loads((directory / "assets.extra" / "model_card.json").read_text())
    options, license = card["options"], card["license"]
    assert license == "mit"
    assert (options["beam_size"], options["n_best"], options["max_length"]) == (1, 1, 3)
    assert options["dtype"] == "float16"
    assert len(list(directory.parent.glob("*.config"))) == 2


def test_export_refuses_a_version_that_exists(run_dir, tmp_path):
    result = keras_mt("export", run_dir, tmp_path, check=False)
    assert result.exit_code == 1 and "exists" in result.stderr
