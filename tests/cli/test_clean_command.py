import json
import re
import sys

import pytest
from command import keras_mt

from keras_mt.data.cleaning_rules import RULES


@pytest.fixture
def memory(tmp_path):
    path = tmp_path / "memory.tmx"
    pairs = [("A dog in 1984.", "Ein Hund 1985."), ("A cat.", "Eine Katze."), ("A", "")]
    side = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    units = "".join(f"<tu>{side('en-GB', a)}{side('de', b)}</tu>" for a, b in pairs)
    path.write_text(f"<tmx version='1.4'><body>{units}</body></tmx>")
    return ["--data", path, "--source", "en", "--target", "de", "--output", tmp_path / "out"]


def test_clean_prints_the_table_and_writes_a_corpus(memory, tmp_path):
    lines = keras_mt("clean", *memory).output.splitlines()
    assert lines[0].split()[:3] == ["rule", "dropped", "share"]
    assert any(line.startswith("numbers             1  33.33%  ") for line in lines)
    assert any("A dog in 1984. | Ein Hund 1985." in line for line in lines)
    assert lines[-1] == f"wrote {tmp_path / 'out'}"
    assert (tmp_path / "out" / "de.train.txt").read_text() == "Eine Katze.\n"
    assert json.loads((tmp_path / "out" / "cleaning.json").read_text())["kept"] == 1
    again = keras_mt("clean", *memory, check=False)
    assert again.exit_code == 1 and "is not overwritten" in again.stderr


def test_rules_are_named_in_the_help_and_left_out_on_demand(memory, tmp_path):
    text = " ".join(keras_mt("clean", "--help").output.split())
    assert re.search("The rules, .* are " + r"\b.*? ".join(RULES), text)
    keras_mt("clean", *memory, "--without", "numbers", "--without", "copy")
    assert (tmp_path / "out" / "en.train.txt").read_text() == "A dog in 1984.\nA cat.\n"
    memory[-1] = tmp_path / "next"
    wrong = keras_mt("clean", *memory, "--without", "all", check=False)
    assert wrong.exit_code == 1 and "There is no rule 'all'; there are empty, " in wrong.stderr


def test_a_missing_extra_is_named(memory, monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid", None)
    result = keras_mt("clean", *memory, "--identify", check=False)
    assert result.exit_code == 1 and "pip install 'keras_mt[langid]'" in result.stderr
