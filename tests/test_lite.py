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

from keras_mt import ExportedTranslator, Glossary

pytestmark = pytest.mark.long

EXPORT = ROOT / "saved_models" / "multi30k_en_de_litert"
TEXTS = ["Two dogs run.", "A man is reading a <b>book</b>."]
PYTHON = """
import sys, keras_mt

glossary = keras_mt.Glossary({"dogs": "Köter"})
translator = keras_mt.ExportedTranslator(sys.argv[1], glossary=glossary)
print(translator("Two dogs run."))
print(*translator.align_words("Two dogs.", "Zwei Hunde."))
print(translator.score("Two dogs.", "Zwei Hunde."))
try:
    keras_mt.Translator
except ImportError as error:
    print(error)
"""
COMMAND = """
import sys, keras_mt_command

for line in sys.stdin:
    sys.argv[:] = ["keras-mt", *line.split()]
    try:
        keras_mt_command.main()
    except SystemExit as end:
        assert not end.code, line
    heavy = {"keras", "tensorflow"} & sys.modules.keys()
    assert not heavy, (heavy, line)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "en.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "de.txt").write_text("Zwei Hunde rennen.\nEin Mann liest ein Buch.\n")
    (folder / "terms.tsv").write_text("dogs\tKöter\n", encoding="utf-8")
    (folder / "pairs.tsv").write_text("Two dogs run.\tZwei Hunde rennen.\n")
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


def test_an_environment_without_them_translates(environment, files):
    def translated(*options):
        command = "translate", EXPORT, files / "en.txt", *options
        result = run(environment, "-m", "keras_mt", *command, cwd=files)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.splitlines()

    here, glossary = ExportedTranslator(EXPORT), Glossary({"dogs": "Köter"})
    assert translated() == here(TEXTS)
    with_terms = here(TEXTS, glossary=glossary, markup="html")
    assert translated("--glossary", files / "terms.tsv", "--markup", "html") == with_terms
    assert "Köter" in with_terms[0] and "<b>Buch</b>" in with_terms[1]
    result = run(environment, "-c", PYTHON, EXPORT, cwd=files)
    score = here.score("Two dogs.", "Zwei Hunde.")
    assert result.stdout.splitlines() == [
        with_terms[0], "[0 0] [1 1]", str(score),
        "keras_mt.Translator needs keras, which is not installed: pip install keras_mt"
    ]  # fmt: skip


def test_what_needs_more_names_it(environment, files):
    corpus = "--data", files / "pairs.tsv", "--source", "en", "--target", "de"
    for command, message in (
        (("translate", ROOT / "saved_models" / "multi30k_en_de"), "needs tensorflow, which is not"),
        (("train", *corpus, "--output", files / "run"), "needs tensorflow, which is not installed"),
        (("evaluate", EXPORT, *corpus), "needs sacrebleu, which is not installed"),
    ):
        result = run(environment, "-m", "keras_mt", *command, input="", cwd=files)
        assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
        assert message in result.stderr


def test_without_what_runs_it_the_packages_are_named(monkeypatch):
    for missing in ("re2", "ai_edge_litert.interpreter"):
        with monkeypatch.context() as patch:
            for ours in ("keras_mt.text.plain", "keras_mt.translation.litert"):
                patch.delitem(sys.modules, ours, raising=False)
            patch.setitem(sys.modules, missing, None)
            package = missing.partition(".")[0]
            with pytest.raises(ImportError, match=rf"{package}, .* ai-edge-litert google-re2$"):
                ExportedTranslator(EXPORT)


COMMANDS = """\
translate {export} {files}/en.txt --json
translate {export} {files}/en.txt --markup html --glossary {files}/terms.tsv
translate-files {export} {files}/out {files}/en.txt
score {export} {files}/en.txt {files}/de.txt
align {export} {files}/en.txt {files}/de.txt --pharaoh
evaluate {export} --data {files}/pairs.tsv --source en --target de
evaluate --hypotheses {files}/one.txt --data {files}/pairs.tsv --source en --target de
"""


def test_no_command_imports_them(files):
    (files / "one.txt").write_text("Zwei Hunde rennen.\n")
    lines = COMMANDS.format(export=EXPORT, files=files)
    result = run(sys.executable, "-c", COMMAND, cwd=ROOT, input=lines)
    assert result.returncode == 0, result.stderr
