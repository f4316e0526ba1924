"""An export for LiteRT needs neither TensorFlow nor Keras, and does not import what is there."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata

import pytest
from conftest import ROOT

from keras_mt import ExportedTranslator, Translator, convert

pytestmark = pytest.mark.long

TEXTS = ["O livro é novo.", "O <b>livro</b> está em cima da mesa."]
PYTHON = """
import sys, keras_mt

glossary = keras_mt.Glossary({"livro": "volume"})
translator = keras_mt.ExportedTranslator(sys.argv[1], glossary=glossary)
print(translator("O livro é novo."))
print(*translator.align_words("O livro.", "The book."), translator.score("O livro.", "The book."))
try:
    keras_mt.Translator
except ImportError as error:
    print(error)
"""
COMMAND = """
import sys, keras_mt_command

sys.argv[0] = "keras-mt"
try:
    keras_mt_command.main()
except SystemExit as end:
    assert not end.code
heavy = {"keras", "tensorflow"} & sys.modules.keys()
assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def export(run_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("litert") / "pt_en"
    convert.export(Translator.load(run_dir), folder, "litert")
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "pt.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "en.txt").write_text("The book is new.\nThe book is on the table.\n")
    (folder / "terms.tsv").write_text("livro\tvolume\n")
    (folder / "pairs.tsv").write_text("O livro é novo.\tThe book is new.\n")
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Python in an environment with what docs/serving.md has users install, and no more."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lite = [re.match(r"[\w-]+", x)[0] for x in project["optional-dependencies"]["lite"]]
    names = sorted([*lite, "click", "numpy", "sentencepiece"])
    assert f"pip install {' '.join(names)}\n" in (ROOT / "docs" / "serving.md").read_text()
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    found = [ROOT / "keras_mt", ROOT / "keras_mt_command.py"]
    for each in map(metadata.distribution, names):
        found += map(
            each.locate_file, {path.parts[0] for path in each.files} - {"..", "__pycache__"}
        )
    for path in found:
        (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def run(*command, **options):
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)), env=environ, capture_output=True, text=True, check=False, **options
    )


def test_an_environment_without_them_translates(environment, export, files):
    def translated(*options):
        command = "translate", export, files / "pt.txt", *options
        result = run(environment, "-m", "keras_mt", *command, cwd=files)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.splitlines()

    here = ExportedTranslator(export)
    assert translated() == here(TEXTS)
    assert translated("--markup", "html") == here(TEXTS, markup="html")
    assert translated("--glossary", files / "terms.tsv")[0] == "The volume is new."
    result = run(environment, "-c", PYTHON, export, cwd=files)
    score = here.score("O livro.", "The book.")
    expected = "The volume is new.", f"[0 0] [1 1] {score}"
    assert result.stdout.splitlines() == [
        *expected, "keras_mt.Translator needs keras, which is not installed: pip install keras_mt"
    ]  # fmt: skip


def test_what_needs_more_names_it(environment, export, files):
    corpus = "--data", files / "pairs.tsv", "--source", "pt", "--target", "en"
    for command, message in (
        (("translate", ROOT / "saved_models" / "multi30k_en_de"), "needs tensorflow, which is not"),
        (("train", *corpus, "--output", files / "run"), "needs tensorflow, which is not installed"),
        (("evaluate", export, *corpus), "needs sacrebleu, which is not installed"),
    ):
        result = run(environment, "-m", "keras_mt", *command, input="", cwd=files)
        assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
        assert message in result.stderr


def test_without_what_runs_it_the_packages_are_named(export, monkeypatch):
    for missing in ("re2", "ai_edge_litert.interpreter"):
        with monkeypatch.context() as patch:
            for ours in ("keras_mt.text.plain", "keras_mt.translation.litert"):
                patch.delitem(sys.modules, ours, raising=False)
            patch.setitem(sys.modules, missing, None)
            package = missing.partition(".")[0]
            with pytest.raises(ImportError, match=rf"{package}, .* ai-edge-litert google-re2$"):
                ExportedTranslator(export)


@pytest.mark.parametrize(
    "command",
    [
        "translate {export} {files}/pt.txt --json",
        "translate {export} {files}/pt.txt --markup html --glossary {files}/terms.tsv",
        "translate-files {export} {files}/out {files}/pt.txt",
        "score {export} {files}/pt.txt {files}/en.txt",
        "align {export} {files}/pt.txt {files}/en.txt --pharaoh",
        "evaluate {export} --data {files}/pairs.tsv --source pt --target en",
        "evaluate --hypotheses {files}/one.txt --data {files}/pairs.tsv --source pt --target en",
    ],
)
def test_no_command_imports_them(command, export, files):
    (files / "one.txt").write_text("The book is new.\n")
    words = command.format(export=export, files=files).split()
    result = run(sys.executable, "-c", COMMAND, *words, cwd=ROOT)
    assert result.returncode == 0, result.stderr
