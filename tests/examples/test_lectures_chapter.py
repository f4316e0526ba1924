"""The lectures: their scripts, and the chapter, which quotes what they print."""

import functools
import importlib
import json
import re

import numpy as np
import pytest
import walk
from conftest import ROOT
from test_docs import anchors

FOLDER = ROOT / "docs" / "lectures"
SCRIPTS = ROOT / "examples" / "lectures"
PAGES = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")
TRAINED = {"06_heads", "11_search", "12_alignment"}  # What they print depends on the model.
OTHERS = {"01_vectors", "06_one_word"}  # They need another model than that of the tests.


def quotes():
    """What each script is quoted with: the blocks after the mention of its name."""
    found = {}
    for text in PAGES.values():
        script = None
        for name, block in re.findall(
            r"/lectures/(\d\d_\w+)\.py\)|^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        ):
            script = name or script
            if block:
                found.setdefault(script, []).append(block)
    return found


def alike(lines, others):
    """The same words, and the same numbers but for rounding."""
    pairs = list(zip(lines, others, strict=True))
    if any(NUMBER.sub("0", a).split() != NUMBER.sub("0", b).split() for a, b in pairs):
        return False
    numbers = [
        [float(x) for line in side for x in NUMBER.findall(line)] for side in (lines, others)
    ]
    return numbers[0] == pytest.approx(numbers[1], rel=1e-3, abs=0.011)


# One process for several scripts, which share what they import: each with its arguments.
SEVERAL = """
import json, runpy, sys

import keras
import tensorflow as tf

eager, *scripts = json.loads(sys.argv[1])
tf.config.run_functions_eagerly(eager)
sys.path.insert(0, "examples/lectures")
for name, *arguments in scripts:
    keras.backend.clear_session()  # For names of layers without a number.
    sys.argv = [name, *arguments]
    runpy.run_path(f"examples/lectures/{name}.py", run_name="__main__")
    print(end="\\0")
"""


def outputs_of(python, folder, *scripts, eager=False):
    """By script what it printed, which draws into a folder: of its name, or of it with options."""
    scripts = [(each,) if isinstance(each, str) else each for each in scripts]
    lines = [[*map(str, (name, "--output", folder, *rest))] for name, *rest in scripts]
    result = python("-c", SEVERAL, json.dumps([eager, *lines]), cwd=ROOT)
    assert result.returncode == 0, result.stderr
    printed = result.stdout.split("\0")[: len(scripts)]
    return dict(zip([name for name, *_ in scripts], printed, strict=True))


def output_of(python, folder, script, *arguments):
    (printed,) = outputs_of(python, folder, (script, *arguments)).values()
    return printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the pictures of `printed` are."""
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def printed(python, run_dir, folder):
    """What each script prints, by its name."""
    names = sorted({path.stem for path in SCRIPTS.glob("[01]*.py")} - OTHERS)
    trained = "--run", run_dir, "--sentence", "O livro está em cima da mesa."
    options = {
        "06_heads": trained, "09_decoder_block": trained,
        "11_search": (*trained, "--beam-size", "2"),
        "12_alignment": (*trained, "--recurrent-run", run_dir),
    }  # fmt: skip
    return outputs_of(python, folder, *((n, *options.get(n, ())) for n in names), eager=True)


@pytest.fixture
def run(python, tmp_path):
    """Runs a script, which draws into `tmp_path`; gives what it printed."""
    return functools.partial(output_of, python, tmp_path)


def check_quotes(script, printed):
    printed = printed.splitlines()
    for block in quotes().get(script, ()):
        lines = block.splitlines()
        starts = range(len(printed) - len(lines) + 1)
        assert any(alike(lines, printed[i : i + len(lines)]) for i in starts), block


def test_the_chapter_quotes_what_a_script_prints(run):
    """One; `test_every_number_and_picture` takes them all."""
    check_quotes("03_attention", run("03_attention"))


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.parametrize("script", sorted((TRAINED | OTHERS) & quotes().keys()))
def test_the_chapter_quotes_what_a_trained_model_does(script, run):
    check_quotes(script, run(script))


def matrix(text, title, size):
    """The numbers of a matrix that a script of the walk printed."""
    lines = text.split(f"\n{title}\n")[1].splitlines()
    rows = [re.findall(r"(?<![\w.])-?(?:inf|\d+(?:\.\d+)?)(?![\w.])", line) for line in lines]
    return np.array([row for row in rows if row][:size], float)


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


@pytest.mark.long
def test_every_number_and_picture(printed, folder):
    """The matrices are those that NumPy computes."""
    assert len(printed) == 15
    for name in printed.keys() - TRAINED:
        check_quotes(name, printed[name])
    committed = {path.stem for path in FOLDER.glob("[01]*.png")}
    assert {path.stem for path in folder.glob("*.png")} == committed - OTHERS

    scores = np.array([[31, 27, 22], [23, 38, 34], [22, 31, 37]])
    out = printed["05_queries_keys_values"]
    np.testing.assert_array_equal(matrix(out, "Q K^T", 3), scores)
    weights = matrix(out, "softmax(Q K^T / sqrt(3))", 3)
    np.testing.assert_allclose(weights, softmax(scores / 3**0.5), atol=0.006)
    values = np.array([[1, 0, 2], [0, 3, 1], [4, 1, 0]])
    np.testing.assert_allclose(matrix(out, "times V", 3), weights @ values, atol=0.03)

    out = printed["09_decoder_block"]
    hidden = np.triu(np.full((3, 3), -np.inf), 1)
    np.testing.assert_array_equal(matrix(out, "the mask", 3), hidden)
    rows = matrix(out, "softmax(Q K^T / sqrt(3) + mask)", 3)
    np.testing.assert_allclose(rows, softmax(scores / 3**0.5 + hidden), atol=0.006)

    weights = matrix(printed["04_self_attention"], "How much each word looks at each", 6)
    np.testing.assert_allclose(weights.sum(1), 1, atol=0.03)
    np.testing.assert_array_equal(weights.max(1), weights.diagonal())
    np.testing.assert_array_equal(weights[1], weights[5])  # Both cats.


@pytest.mark.parametrize(
    ("rows", "mask"),
    [
        ([[0.6, 0.2, 0.2], [0.1, 0.7, 0.2], [0.2, 0.4, 0.4]], 0),
        ([[1, 0, 0], [0.3, 0.7, 0], [0.3, 0.3, 0.4]], np.triu(np.full((3, 3), -np.inf), 1)),
    ],
)
def test_no_divisor_gives_the_rows_of_the_slides(rows, mask):
    scores = np.array([[31, 27, 22], [27, 42, 31], [22, 31, 37]])
    divisors = np.geomspace(0.5, 500, 20_000)[:, None, None]
    found = softmax(scores / divisors + mask).round(1)
    assert not (found == rows).all((1, 2)).any()
    page = (FOLDER / "reading.md").read_text(encoding="utf-8")
    assert "31 27 22, 27 42 31, 22 31 37" in page
    text = [" ".join(f"{x:g}".removeprefix("0") or "0" for x in row) for row in rows]
    assert text[-1] in page and text[-2].removesuffix(" 0") in page


def test_years_are_those_of_the_papers():
    """That of a link in the text, or of a row of the list, against the number on arXiv."""
    links = re.compile(r"\b(20\d\d)(?:\]\(|, [^|]*\| \[[\d.]+\]\()https://arxiv.org/abs/(\d\d)")
    found = [pair for text in PAGES.values() for pair in links.findall(text)]
    assert len(found) > 50 and all(year[2:] == number for year, number in found)


@pytest.mark.long
def test_lectures_with_a_trained_model(printed):
    assert "on the table . </s>" in printed["11_search"].split("a beam of 2")[1]
    out = printed["12_alignment"]
    assert out.count("The book is on the table.") == 2
    assert re.search(r"book +looks at livro 0\.[5-9]", out)


def test_lectures_say_what_is_missing(tmp_path):
    with pytest.raises(SystemExit, match="make demo"):
        walk.trained(tmp_path)


@pytest.mark.long
@pytest.mark.exhaustive
def test_a_head_looks_from_the_pronoun_at_its_noun(run, tmp_path):
    out = run("06_one_word", "--epochs", "20")
    right, total = map(int, re.search(r"resolved: (\d+) of (\d+)", out).groups())
    assert total > 500 and right > 0.95 * total
    assert "“they” is “eles”" in out and "“it” is “ela”" in out
    heads = {*re.findall(r"head (\d): where “they” looks", out)}
    looks = [matrix(out, f"head {head}: where “they” looks", 1)[0] for head in heads]
    assert max(weights[1] for weights in looks) > 0.5  # "books" of "the books are ...".
    assert (tmp_path / "06_one_word.png").is_file()


@pytest.mark.long
@pytest.mark.exhaustive
def test_lectures_train_a_recurrent_model(run, run_dir, tmp_path):
    options = ("--run", run_dir, "--epochs", "1")
    run("12_alignment", *options, "--recurrent-run", tmp_path / "recurrent")
    assert (tmp_path / "recurrent" / "model.keras").is_file()
    assert (tmp_path / "12_alignment.png").is_file()


def test_the_chapter_has_every_script_and_picture():
    text = "".join(PAGES.values())
    for path in SCRIPTS.glob("[01]*.py"):
        assert f"/lectures/{path.name})" in text
    pictures = {path.name for kind in ("png", "svg") for path in FOLDER.glob(f"*.{kind}")}
    shown = re.findall(r"!\[[^]]+\]\(([\w.]+)\)", text)
    assert sorted(pictures) == sorted(shown) and len(shown) >= 18


@pytest.mark.parametrize("path", [*PAGES, ROOT / "docs" / "index.md"], ids=lambda path: path.stem)
def test_what_the_chapter_links_to_is_there(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!https?:)[^)]+)\)", text):
        name, _, anchor = target.partition("#")
        page = path.parent / name if name else path
        assert page.exists(), target
        if anchor.startswith("keras_mt."):  # A name of the reference.
            module, _, thing = anchor.rpartition(".")
            assert hasattr(importlib.import_module(module), thing), target
            assert f"automodule:: {module}\n" in page.read_text(encoding="utf-8")
        elif anchor:
            assert anchor in anchors(page.read_text(encoding="utf-8")), target


def test_the_first_page_shows_the_readmes_first_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n.*?^```$", index, re.MULTILINE | re.DOTALL)
    assert block in readme  # Which tests/test_docs.py runs.
