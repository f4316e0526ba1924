"""Every command of docs/evaluation.md, in its order."""

import json
import re
import shlex
import subprocess

import pytest
from command import run_line
from conftest import ROOT

from keras_mt import cli

CHAPTER = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", CHAPTER, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def workplace(translator, load, corpus, tmp_path, monkeypatch, signatures_alone):
    """A folder with the chapter's corpus and its runs, which are one that is loaded already."""
    base = load(beam_size=1, max_length=4)

    def load_translator(path, *_):
        return base if "base" in str(path) else translator

    (tmp_path / "my_corpus").mkdir()
    for path in corpus.iterdir():
        name = path.name.replace("en.", "de.").replace("pt.", "en.")
        (tmp_path / "my_corpus" / name).write_bytes(path.read_bytes())
    for name in ("en_de", "en_de_base"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    for name in ("align", "evaluate", "score", "translate"):
        monkeypatch.setattr(f"keras_mt.cli.{name}.load_translator", load_translator)
    monkeypatch.setattr("keras_mt.cli.export.load_run", lambda *_, **__: translator)
    monkeypatch.chdir(tmp_path)
    signatures_alone("greedy")
    return tmp_path


@pytest.mark.long
def test_its_commands_run_in_the_readers_order(workplace):
    printed = []
    for kind, block in BLOCKS:
        if kind == "bash":
            printed += [run_line(line) for line in block.replace("\\\n", "").splitlines()]
    scores = json.loads(printed[0].splitlines()[-1])
    named = {name for row in re.findall(r"^\| (`.+?) \|", CHAPTER, flags=re.MULTILINE)
             for name in re.findall(r"`(\w+)`", row)}  # fmt: skip
    assert named <= set(scores) and {"bleu", "chrfpp", "seconds"} <= named
    both = json.loads(printed[1].splitlines()[-1])
    for one in json.loads(printed[3]):  # sacreBLEU's own, of the first.
        assert one["score"] == both["systems"][0]["bleu" if one["name"] == "BLEU" else "chrf"]
    (shown,) = (json.loads(block) for kind, block in BLOCKS if kind == "json")
    found = json.loads(printed[4])
    assert set(shown) == set(found)
    assert set(shown["translations"][0]) == set(found["translations"][0])
    assert (workplace / "saved_models" / "en_de" / "3" / "saved_model.pb").is_file()


def test_what_is_not_run_is_parsed():
    for kind, block in BLOCKS:
        assert kind in ("bash", "json", "sh")
        if kind != "sh":
            continue
        subprocess.run(["bash", "-nc", block], check=True)
        for line in block.replace("\\\n", "").splitlines():
            name, *words = shlex.split(line)
            if name == "keras-mt":
                words = [str(ROOT) if word.startswith("runs/") else word for word in words]
                cli.main.commands[words[0]].make_context(words[0], words[1:])
