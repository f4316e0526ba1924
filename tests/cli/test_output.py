import shutil

import numpy as np
import pytest
from command import keras_mt, strict

from keras_mt.cli.output import to_json
from keras_mt.run_folder import RunFolder


def test_refused_lines_are_counted_and_none_left_is_an_error(eager, load_once, run_dir, tmp_path):
    some = keras_mt("translate", run_dir, "--max-length", 3, stdin=b"\xff\nO livro.\n\n")
    assert some.stderr.splitlines()[-1] == "1 of 3 lines skipped"
    result = keras_mt("translate", run_dir, "--max-length", 3, stdin=b"\xff\n\xfe\n", check=False)
    assert result.exit_code == 1 and result.stdout == "\n\n"
    assert result.stderr.splitlines()[-1] == "2 of 2 lines skipped"
    (tmp_path / "a").write_bytes(b"\xff\n")
    result = keras_mt("score", run_dir, tmp_path / "a", tmp_path / "a", check=False)
    assert result.exit_code == 1 and result.stderr.endswith("1 of 1 lines skipped\n")
    blank = keras_mt("translate", run_dir, "--max-length", 3, stdin=b"\n   \n\x00\x01\n")
    assert blank.stderr == "" and len(blank.stdout.splitlines()) == 3


@pytest.fixture(scope="module")
def diverged(run_dir, tmp_path_factory):
    """A run folder whose model's weights are not finite, and which has no config.json."""
    folder = tmp_path_factory.mktemp("diverged") / "run"
    folder.mkdir()
    shutil.copyfile(run_dir / "tokenizer.model", folder / "tokenizer.model")
    model = RunFolder(run_dir).load_model()
    weights = [np.full_like(weight, np.nan) for weight in model.get_weights()]
    RunFolder(folder).save_model(model, weights)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "RUN", "--json", "--token-scores", "--max-length", "3"],
        ["score", "RUN", "SOURCE", "TARGET", "--json"],
        ["align", "RUN", "SOURCE", "TARGET"],
        ["evaluate", "RUN", "--data", "CORPUS", "--source", "pt", "--target", "en"],
    ],
)
def test_a_diverged_model_gives_json_all_the_same(eager, arguments, diverged, corpus):
    names = {
        "RUN": diverged,
        "CORPUS": corpus,
        "SOURCE": corpus / "pt.test.txt",
        "TARGET": corpus / "en.test.txt",
    }
    arguments = [names.get(argument, argument) for argument in arguments]
    result = keras_mt(*arguments, stdin="Olá!\nO livro.\n".encode(), check=False)
    assert result.exit_code == (arguments[0] in ("translate", "score")), result.stderr
    rows = [strict(line) for line in result.stdout.splitlines()]
    if arguments[0] == "evaluate":
        assert rows[-1]["split_sentences"] is True and rows[-1]["bleu"] == 0
    elif arguments[0] == "align":
        assert rows[0]["attention"][0][0] is None
    else:
        assert all("no finite" in row["error"] for row in rows)


def test_numbers_that_are_not_finite_are_null():
    assert to_json({"a": [1.5, float("nan")], "b": ("x", -np.inf)}) == (
        '{"a": [1.5, null], "b": ["x", null]}'
    )
