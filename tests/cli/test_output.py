import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from command import keras_mt, strict
from conftest import ROOT

from keras_mt.cli.output import to_json
from keras_mt.run_folder import RunFolder

# The command, with a translator that is busy in native code, where Python cannot heed a signal.
BUSY = """
import hashlib, importlib.util, os, sys

spec = importlib.util.find_spec("keras_mt")
sys.modules["keras_mt"] = importlib.util.module_from_spec(spec)  # Without Keras.

class Results(list):
    refusals = {}

class Busy:
    gives_confidence, n_best = False, 1

    def hypotheses(self, texts, **_):
        if any("long" in text for text in texts):
            print("busy", file=sys.stderr, flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000_000)  # Half a minute.
        return Results([type("Hypothesis", (), {"text": text.upper()})] for text in texts)

from keras_mt.cli import main, translate
translate.load_translator = lambda *_: Busy()
main(["translate", "."])
"""


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_it_at_once_and_leaves_what_was_done(number, status, word, tmp_path):
    with (
        open(tmp_path / "out", "wb") as out,
        subprocess.Popen(
            [sys.executable, "-c", BUSY],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE,
        ) as process,
    ):  # fmt: skip
        process.stdin.write(b"short\n" * 3 + b"long " * 2000 + b"\nshort\n")
        process.stdin.close()
        assert process.stderr.readline() == b"busy\n"
        process.send_signal(number)
        assert process.wait() == status
        assert process.stderr.read().decode() == f"{word}: 3 lines written.\n"
    assert (tmp_path / "out").read_bytes() == b"SHORT\n" * 3


def test_a_signal_does_not_wait_for_the_translations_of_evaluate():
    script = BUSY.replace("import main, translate", "import main, systems").replace(
        "translate.load", "systems.load"
    )
    arguments = ["evaluate", ".", "--data", "x", "--source", "en", "--target", "de"]
    script = script.replace('["translate", "."]', str(arguments)).replace(
        "main([",
        "from keras_mt.cli import evaluate\n"
        'evaluate.corpus_split = lambda *_: (["long"], ["lang"])\nmain([',
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr.readline() == b"busy\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read().decode().endswith("0 of 1 sentences translated.\n")


def test_refused_lines_are_counted_and_none_left_is_an_error(eager, load_once, run_dir, tmp_path):
    some = keras_mt("translate", run_dir, "--beam-size", 1, stdin=b"\xff\nO livro.\n\n")
    assert some.stderr.splitlines()[-1] == "1 of 3 lines refused"
    result = keras_mt("translate", run_dir, "--beam-size", 1, stdin=b"\xff\n\xfe\n\n", check=False)
    assert result.exit_code == 1 and result.stdout == "\n\n\n"
    assert result.stderr.splitlines()[-1] == "2 of 3 lines refused"
    (tmp_path / "a").write_bytes(b"\xff\n")
    result = keras_mt("score", run_dir, tmp_path / "a", tmp_path / "a", check=False)
    assert result.exit_code == 1 and result.stderr.endswith("1 of 1 lines refused\n")
    blank = keras_mt("translate", run_dir, "--beam-size", 1, stdin=b"\n   \n\x00\x01\n")
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
        ["translate", "RUN", "--json", "--token-scores"],
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
