import json
import os
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT

from keras_mt import Translator, cli
from keras_mt.cli.lines import Lines, check_standard_input, read_lines, row_blocks, to_json
from keras_mt.errors import InputError
from keras_mt.run_folder import RunFolder

LIGHT = """
import sys, keras_mt_command
for arguments in {arguments}:
    sys.argv = ["keras-mt", *arguments]
    try:
        keras_mt_command.main()
    except SystemExit as end:
        assert end.code == {status}, end.code
    for name in [name for name in sys.modules if name.startswith("keras_mt.")]:
        del sys.modules[name]
heavy = {{"keras", "tensorflow", "numpy", "sacrebleu", "tqdm"}} & set(sys.modules)
assert not heavy, heavy
"""

COMMANDS = sorted(cli.main.commands)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ([["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)], 0),
        (
            [
                ["nonsense"],
                ["translate", "/nowhere"],
                ["train", "--data", "phrasebook"],
                ["train", "--dtype", "int7"],
                ["translate", ".", "--beam-size", "many"],
            ],
            2,
        ),
    ],
)
def test_help_and_usage_errors_import_neither_keras_nor_tensorflow(arguments, status):
    script = LIGHT.format(arguments=arguments, status=status)
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    if status == 0:
        assert all(f"Usage: keras-mt {name} " in result.stdout for name in COMMANDS)


def test_both_ways_to_start_the_command_are_one():
    outputs = [
        subprocess.run(
            [sys.executable, *way, "train", "--help"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        for way in (["keras_mt_command.py"], ["-m", "keras_mt"])
    ]
    assert outputs[0] == outputs[1] and b"--warmup-steps" in outputs[0]


def test_a_program_that_waits_for_its_answer_gets_it(python_command, run_dir):
    process = subprocess.Popen(
        [*python_command, "keras_mt_command.py", "translate", run_dir, "--beam-size", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    translator = Translator.load(run_dir, beam_size=1)
    watch = subprocess.Popen(["sleep", "120"])  # Before the mend nothing ever came.
    try:
        for text in ("O livro está em cima da mesa.", "O gato."):
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert _line_before(watch, process.stdout) == translator(text).encode() + b"\n"
        rest = process.communicate(b"O livro.")[0]
        assert rest == translator("O livro.").encode() + b"\n" and process.returncode == 0
    finally:
        watch.kill()
        watch.wait()
        process.kill()


def _line_before(watch, stream):
    import select

    while not select.select([stream], [], [], 1)[0]:
        assert watch.poll() is None, "no answer within two minutes"
    return stream.readline()


def test_lines_are_taken_as_they_arrive(tmp_path):
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb", buffering=0) as out:
        lines = Lines(file)
        out.write(b"a\n\nb\r\nc")
        assert lines.arrived(2048) == texts("a", "", "b")
        out.write(b"d\ne\nf\n")
        assert lines.arrived(2) == texts("cd", "e")
        assert lines.arrived(2) == texts("f")
        out.write(b"g\nh\ni")
        out.close()
        assert lines.next(2) == texts("g", "h")
        assert lines.arrived(2048) == texts("i")
        assert lines.arrived(2048) == lines.next(1) == []
    content = "".join("x" * (i % 90) + "\n" for i in range(5000)) + "\x85\u2028 end"
    (tmp_path / "file").write_text(content, encoding="utf-8")
    with open(tmp_path / "file", "rb") as file, open(tmp_path / "file", "rb") as other:
        blocks = list(row_blocks(file, other))
    assert [len(rows) for rows in blocks] == [2048, 2048, 905]
    assert [rows[0].number for rows in blocks] == [1, 2049, 4097]
    assert "\n".join(row.texts[0] for rows in blocks for row in rows) == content
    assert all(row.texts[0] == row.texts[1] for rows in blocks for row in rows)


def texts(*lines):
    """What a reader gives for lines without an error."""
    return [(line, None) for line in lines]


def test_a_byte_order_mark_and_carriage_returns_are_no_text(tmp_path):
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\rc\r\r\n\r\n\xff\r\n")
    with open(tmp_path / "file", "rb") as file:
        ((*rows, last),) = row_blocks(file)
        assert [row.texts[0] for row in rows] == ["a", "\ufeffb\rc\r", ""]
        assert last == (4, ("\ufffd",), "not UTF-8 at byte 1")
        file.seek(0)
        with pytest.raises(InputError, match=r"file:4 is not UTF-8 at byte 1\.$"):
            read_lines(file)


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "RUN", "-", "-"],
        ["align", "RUN", "-", "-"],
        ["translate", "RUN", "--prefixes", "-"],
        ["export", "RUN", "new", "--card", "-", "--warmup-texts", "-"],
    ],
)
def test_standard_input_given_twice_is_refused(arguments, run_dir):
    arguments = [str(run_dir) if argument == "RUN" else argument for argument in arguments]
    result = CliRunner().invoke(cli.main, arguments, input=b"a\nb\n")
    assert result.exit_code == 2 and "is read once" in result.stderr


def test_a_pipe_by_its_name_is_standard_input_too(run_dir, tmp_path):
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb"), open(f"/dev/fd/{reader}", "rb") as same:
        with pytest.raises(Exception, match="is read once"):
            check_standard_input(file, same)
        with pytest.raises(Exception, match="is read once"):
            check_standard_input(None, file, file)
    (tmp_path / "a").write_bytes(b"a\n")
    with open(tmp_path / "a", "rb") as file, open(tmp_path / "a", "rb") as same:
        check_standard_input(file, same)


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


def strict(line):
    """What a line of JSON holds; NaN and Infinity, which Python would take, are no JSON."""

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(line, parse_constant=refuse)


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
    arguments = [str(names.get(argument, argument)) for argument in arguments]
    result = CliRunner().invoke(cli.main, arguments, input="Olá!\nO livro.\n".encode())
    assert result.exit_code == 0, result.stderr
    rows = [strict(line) for line in result.stdout.splitlines()]
    if arguments[0] == "evaluate":
        assert rows[-1]["split_sentences"] is True and rows[-1]["bleu"] == 0
    elif arguments[0] == "align":
        assert rows[0]["attention"][0][0] is None
    else:
        assert all("not finite" in row["error"] for row in rows)


def test_numbers_that_are_not_finite_are_null():
    assert to_json({"a": [1.5, float("nan")], "b": ("x", -np.inf)}) == (
        '{"a": [1.5, null], "b": ["x", null]}'
    )


def test_evaluate_says_whether_sentences_are_split(eager, run_dir, corpus, exported):
    arguments = ["--data", corpus, "--source", "pt", "--target", "en"]
    for model, options, splits in (
        (run_dir, ["--split-sentences", "--beam-size", "1"], True),
        (run_dir, ["--no-split-sentences", "--beam-size", "1"], False),
        (exported, [], True),
    ):
        line = CliRunner().invoke(cli.main, [*map(str, ["evaluate", model, *arguments, *options])])
        assert strict(line.stdout.splitlines()[-1])["split_sentences"] is splits


@pytest.mark.long
def test_the_command_runs_whatever_backend_scripts_are_on(run_dir):
    result = subprocess.run(
        [sys.executable, "keras_mt_command.py", "translate", run_dir, "--beam-size", "1"],
        cwd=ROOT, env={**os.environ, "KERAS_BACKEND": "numpy"}, input="O livro é novo.\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout == "The book is new.\n"


def test_standard_input_and_output_may_be_closed(tmp_path):
    command = shlex.join([sys.executable, str(ROOT / "keras_mt_command.py"), "translate", "."])
    result = subprocess.run(
        ["bash", "-c", f"exec {command} <&- >&-"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert result.stderr == "Error: . is neither a run folder nor a SavedModel.\n"
