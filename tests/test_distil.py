"""The steps of examples/distil, on a few dozen sentences."""

import importlib
import json
import math
import random
import re
import shlex
from types import SimpleNamespace

import pytest
from conftest import ROOT

from keras_mt.data import load_corpus


@pytest.fixture(scope="module")
def distil():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples/distil"))
        yield importlib.import_module("distil")


@pytest.fixture(scope="module")
def small(corpus, tmp_path_factory):
    """A corpus of 36 training pairs."""
    folder = tmp_path_factory.mktemp("small")
    for language in ("pt", "en"):
        for split, lines in (("train", 36), ("validation", 8), ("test", 8)):
            name = f"{language}.{split}.txt"
            text = (corpus / name).read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / name).write_text("".join(text[:lines]), encoding="utf-8")
    return folder


class Teacher:
    """Translates into capitals, and keeps what it was asked for."""

    asked = ()

    def __init__(self, path, **options):
        self.fingerprint = f"{path} {options}"

    def hypotheses(self, texts):
        self.asked.append(texts)
        if len(self.asked) == 2:
            raise KeyboardInterrupt
        return [[SimpleNamespace(text=text.upper(), score=-len(text))] for text in texts]


def test_translation_goes_on_where_it_was(distil, small, tmp_path, monkeypatch):
    monkeypatch.setattr(distil.Translator, "load", Teacher)

    def translate(folder, part_lines=10, data=small, **options):
        monkeypatch.setattr(distil, "PART_LINES", part_lines)
        distil.translate("teacher", tmp_path / folder, data, "pt", "en", options.items())
        return (tmp_path / folder / "translated" / "pairs.jsonl").read_text(encoding="utf-8")

    monkeypatch.setattr(Teacher, "asked", calls := [[]] * 2)  # It is not broken off.
    unbroken = translate("unbroken", beam_size=2)
    assert len(calls) == 2 + 5
    rows = [json.loads(line) for line in unbroken.splitlines()]
    for split in ("train", "validation"):
        pairs = load_corpus(small, "pt", "en", split).as_numpy_iterator()
        assert [(row["pt"], row["en"]) for row in rows if row["split"] == split] == [
            tuple(side.decode() for side in pair) for pair in pairs
        ]
    assert all(row["translation"] == row["pt"].upper() for row in rows[:36])
    assert all(row["score"] == -len(row["pt"]) for row in rows[:36])
    assert not any("translation" in row for row in rows[36:])

    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        translate("parts", beam_size=2)
    with pytest.raises(ValueError, match=r"parts is not all translated: give the command that"):
        distil.filter_(tmp_path / "parts", tmp_path / "x.tsv", 1.0, 2.0)
    other = tmp_path / "other.tsv"
    other.write_text("pt\ten\nsim\tyes\n")
    for message, change in {
        "another `beam_size`: give": {"beam_size": 3},
        "another `part_lines`: give": {"beam_size": 2, "part_lines": 9},
        "pairs.jsonl has changed since": {"beam_size": 2, "data": other},
    }.items():
        with pytest.raises(ValueError, match=message):
            translate("parts", **change)
    assert translate("parts", beam_size=2) == unbroken
    assert len(calls) == 6  # What was there was not done again.


def write_translations(folder, rows, validation=()):
    (folder / "translated").mkdir(parents=True)
    rows = [{"split": "train", **row} for row in rows]
    rows += [{"split": "validation", "pt": source, "en": target} for source, target in validation]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "translated" / "pairs.jsonl").write_text(lines)


def by_hand(rows, share, most_ratio):
    """The filter, a row at a time."""
    there = [i for i, row in enumerate(rows) if row.get("translation", "").strip()]
    ratios = {i: len(rows[i]["translation"]) / len(rows[i]["pt"]) for i in there}
    middle = sorted(ratios.values())
    half = len(middle) // 2
    median = middle[half] if len(middle) % 2 else (middle[half - 1] + middle[half]) / 2
    best = sorted(there, key=lambda i: (-rows[i]["score"], i))[: round(share * len(there))]
    return [i for i in sorted(best) if 1 / most_ratio <= ratios[i] / median <= most_ratio]


@pytest.mark.parametrize(("best", "most_ratio"), [(1.0, 3.0), (0.8, 1.5), (0.5, 100.0)])
def test_filter(best, most_ratio, distil, small, tmp_path, capsys):
    draw = random.Random(1)
    rows = []
    for i in range(171):
        row = {"pt": f"s{i}" + "a" * draw.randint(0, 30), "en": "r"}
        if i % 7:  # Of the others one is empty and one has no translation.
            text = f"t{i}" + "b" * draw.randint(0, 60)
            row |= {"translation": text, "score": -draw.randint(1, 40) / 16}  # Some are equal.
        elif i % 2:
            row |= {"translation": " ", "score": 0.0}
        rows.append(row)

    def read(data, split):
        return list(load_corpus(data, "pt", "en", split).as_numpy_iterator())

    validation = [[side.decode() for side in pair] for pair in read(small, "validation")]
    write_translations(tmp_path / "taught", rows, validation)
    distil.filter_(tmp_path / "taught", tmp_path / "distilled.tsv", best, most_ratio)
    expected = by_hand(rows, best, most_ratio)
    assert 20 < len(expected) < 146 + (best == 1)
    assert read(tmp_path / "distilled.tsv", "train") == [
        (rows[i]["pt"].encode(), rows[i]["translation"].encode()) for i in expected
    ]
    assert read(tmp_path / "distilled.tsv", "validation") == read(small, "validation")
    counts = json.loads(capsys.readouterr().out)
    assert counts["lines"] == 171 and counts["kept"] == len(expected) and counts["empty"] == 25
    least = min(rows[i]["score"] for i in expected)
    assert math.isclose(counts["least_score"], least, abs_tol=1e-4)


def test_filter_keeps_a_line_a_line(distil, tmp_path):
    row = {"pt": "a\tb", "en": "", "translation": "c\r\nd", "score": -1.0}
    write_translations(tmp_path / "taught", [row])
    distil.filter_(tmp_path / "taught", tmp_path / "distilled.tsv", 1.0, 2.0)
    lines = (tmp_path / "distilled.tsv").read_text().splitlines()
    assert lines[:2] == ["pt\ten\tsplit", "a b\tc d\ttrain"]


def test_a_setting_without_a_value_is_refused(distil, capsys):
    corpus = ["--data", "phrasebook", "--source", "pt", "--target", "en"]
    with pytest.raises(SystemExit):
        distil.arguments_of(["translate", "x", "y", *corpus, "--set", "beam"])
    assert "must be KEY=VALUE. Received: beam" in capsys.readouterr().err


def test_the_readme_asks_for_options_that_exist(distil, monkeypatch):
    from keras_mt.cli import main

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    decode = importlib.import_module("decode")
    text = (ROOT / "examples/distil/README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    asked = []
    for line in "".join(blocks).replace("\\\n", "").splitlines():
        program, name, *words = shlex.split(line)
        asked.append(name)
        if name == "examples/distil/distil.py":
            step, _ = distil.arguments_of(words)
            asked.append(step.__name__)
        elif name == "benchmarks/decode.py":
            assert words[1] in decode.WORKLOADS
        else:
            assert program == "keras-mt"
            run = str(ROOT / "examples/multi30k/cased")
            words = [run if re.match("TEACHER|runs/", word) else word for word in words]
            main.commands[name].make_context(name, words)
    assert {"translate", "filter_", "train", "evaluate", "benchmarks/decode.py"} <= set(asked)


@pytest.mark.long
@pytest.mark.exhaustive
def test_the_steps(python, small, run_dir, tmp_path):
    corpus = ["--source", "pt", "--target", "en"]
    script, student = ROOT / "examples/distil/distil.py", tmp_path / "student"
    for command in (
        [script, "translate", run_dir, tmp_path / "taught", "--data", small, *corpus],
        [script, "filter", tmp_path / "taught", tmp_path / "distilled.tsv"],
        [
            "-m", "keras_mt", "train", "--data", tmp_path / "distilled.tsv", *corpus,
            "--tokenizer", run_dir, "--set", "num_layers=1", "--set", "d_model=32",
            "--set", "num_heads=2", "--set", "d_ff=32", "--steps", "3", "--output", student,
        ],
        ["-m", "keras_mt", "evaluate", run_dir, student, "--data", small, *corpus],
    ):  # fmt: skip
        result = python(*command)
        assert result.returncode == 0, result.stderr
    teacher, student = json.loads(result.stdout.splitlines()[-1])["systems"]
    assert teacher["bleu"] > 30 > student["bleu"]
