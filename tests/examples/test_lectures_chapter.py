"""The lectures' chapter: what it quotes is what the scripts print, and what it names is there."""

import importlib
import re
import subprocess

import pytest
from conftest import ROOT
from test_docs import anchors

FOLDER = ROOT / "docs" / "lectures"
SCRIPTS = ROOT / "examples" / "lectures"
PAGES = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")
QUICK = ("03_attention", "04_self_attention", "07_positions")


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


@pytest.mark.parametrize(
    "script",
    [pytest.param(s, marks=() if s in QUICK else pytest.mark.long) for s in sorted(quotes())],
)
def test_the_chapter_quotes_what_a_script_prints(script, python, tmp_path):
    result = python(SCRIPTS / f"{script}.py", "--output", tmp_path)
    assert result.returncode == 0, result.stderr
    printed = result.stdout.splitlines()
    for block in quotes()[script]:
        lines = block.splitlines()
        starts = range(len(printed) - len(lines) + 1)
        assert any(alike(lines, printed[i : i + len(lines)]) for i in starts), block


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


def test_the_first_page_shows_the_readmes_program():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n.*?^```$", index, re.MULTILINE | re.DOTALL)
    assert block in readme  # Which tests/test_docs.py runs.


def test_all_of_it_can_be_made_again():
    command = ["make", "--dry-run", "lectures"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    assert "examples/lectures/[01]*.py" in made.stdout
