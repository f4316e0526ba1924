"""The steps of examples/distil, on a few dozen sentences."""

import importlib
import json
import math
import random
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
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
        corpus = (data, "pt", "en")
        distil.translate("teacher", tmp_path / folder, *corpus, part_lines, options.items())
        return (tmp_path / folder / "translated" / "pairs.jsonl").read_text(encoding="utf-8")

    monkeypatch.setattr(Teacher, "asked", calls := [[]] * 2)  # It is not broken off.
    unbroken = translate("unbroken", beam_size=2)
    assert len(calls) == 2 + 4
    rows = [json.loads(line) for line in unbroken.splitlines()]
    pairs = load_corpus(small, "pt", "en", "train").as_numpy_iterator()
    assert [(row["source"], row["reference"]) for row in rows] == [
        tuple(side.decode() for side in pair) for pair in pairs
    ]
    assert all(row["translation"] == row["source"].upper() for row in rows)
    assert all(row["score"] == -len(row["source"]) for row in rows)

    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        translate("parts", beam_size=2)
    with pytest.raises(ValueError, match=r"parts is not all translated: give the command that"):
        distil.filter_(tmp_path / "parts", tmp_path / "x.tsv", 1.0, 2.0)
    for name, other in {
        "another `beam_size`": {"beam_size": 3},
        "another `part_lines`": {"beam_size": 2, "part_lines": 9},
        "another corpus": {"beam_size": 2, "data": "phrasebook"},
    }.items():
        with pytest.raises(ValueError, match=f"{name}: give"):
            translate("parts", **other)
    assert translate("parts", beam_size=2) == unbroken
    assert len(calls) == 5  # What was there was not done again.


def write_translations(folder, rows, data):
    (folder / "translated").mkdir(parents=True)
    work = {"data": str(data), "source": "pt", "target": "en"}
    (folder / "work.json").write_text(json.dumps(work))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "translated" / "pairs.jsonl").write_text(lines)


def by_hand(rows, keep, most_ratio):
    """The filter, a row at a time."""
    there = [i for i, row in enumerate(rows) if row.get("translation", "").strip()]
    ratios = {i: len(rows[i]["translation"]) / len(rows[i]["source"]) for i in there}
    middle = sorted(ratios.values())
    half = len(middle) // 2
    median = middle[half] if len(middle) % 2 else (middle[half - 1] + middle[half]) / 2
    best = sorted(there, key=lambda i: (-rows[i]["score"], i))[: round(keep * len(there))]
    return [i for i in sorted(best) if 1 / most_ratio <= ratios[i] / median <= most_ratio]


@pytest.mark.parametrize(("keep", "most_ratio"), [(1.0, 3.0), (0.8, 1.5), (0.5, 100.0)])
def test_filter(keep, most_ratio, distil, small, tmp_path, capsys):
    draw = random.Random(1)
    rows = []
    for i in range(171):
        row = {"source": f"s{i}" + "a" * draw.randint(0, 30), "reference": "r"}
        if i % 7:  # Of the others one is empty and one has no translation.
            text = f"t{i}" + "b" * draw.randint(0, 60)
            row |= {"translation": text, "score": -draw.randint(1, 40) / 16}  # Some are equal.
        elif i % 2:
            row |= {"translation": " ", "score": 0.0}
        rows.append(row)
    write_translations(tmp_path / "taught", rows, small)
    distil.filter_(tmp_path / "taught", tmp_path / "distilled.tsv", keep, most_ratio)
    expected = by_hand(rows, keep, most_ratio)
    assert 20 < len(expected) < 146 + (keep == 1)

    def read(data, split):
        return list(load_corpus(data, "pt", "en", split).as_numpy_iterator())

    assert read(tmp_path / "distilled.tsv", "train") == [
        (rows[i]["source"].encode(), rows[i]["translation"].encode()) for i in expected
    ]
    assert read(tmp_path / "distilled.tsv", "validation") == read(small, "validation")
    counts = json.loads(capsys.readouterr().out)
    assert counts["lines"] == 171 and counts["kept"] == len(expected) and counts["empty"] == 25
    least = min(rows[i]["score"] for i in expected)
    assert math.isclose(counts["least_score"], least, abs_tol=1e-4)


def test_filter_keeps_a_line_a_line(distil, small, tmp_path):
    row = {"source": "a\tb", "reference": "", "translation": "c\r\nd", "score": -1.0}
    write_translations(tmp_path / "taught", [row], small)
    distil.filter_(tmp_path / "taught", tmp_path / "distilled.tsv", 1.0, 2.0)
    lines = (tmp_path / "distilled.tsv").read_text().splitlines()
    assert lines[:2] == ["pt\ten\tsplit", "a b\tc d\ttrain"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "x", "y", "--set", "beam"], "must be KEY=VALUE. Received: beam"),
        (
            ["compare", "x", "--output", "y", "--systems", "marian"],
            "no system marian; there are ke",
        ),
    ],
)
def test_what_is_wrong_is_named(arguments, message, distil, capsys):
    corpus = ["--data", "phrasebook", "--source", "pt", "--target", "en"]
    with pytest.raises(SystemExit):
        distil.arguments_of([*arguments, *corpus])
    assert message in capsys.readouterr().err


def test_the_readme_asks_for_options_that_exist(distil):
    from keras_mt.cli import main

    text = (ROOT / "examples/distil/README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    asked = []
    for line in "".join(blocks).replace("\\\n", "").splitlines():
        words = shlex.split(line, comments=True)
        if words[:2] == ["python", "examples/distil/distil.py"]:
            step, _ = distil.arguments_of(words[2:])
            asked.append(step.__name__)
        elif words and "on_gpu.py" not in words[1]:  # Its options are tested with it.
            assert words[:2] == ["keras-mt", "train"], line
            main.commands["train"].make_context("train", words[2:])
            asked.append("train")
    assert set(asked) == {"translate", "filter_", "train", "compare"}


class Quoting:
    """A system that gives these translations, each time in two seconds."""

    def __init__(self, translations):
        self.translations = translations

    def ask(self):
        return self.translations, 2.0


@pytest.fixture
def compared(distil, small, tmp_path, monkeypatch):
    """What compare writes of systems that are right every other time, always, and never."""
    references = (small / "en.test.txt").read_text(encoding="utf-8").splitlines()
    half = [text if i % 2 else text.swapcase() for i, text in enumerate(references)]
    names = "keras_mt-float32", "ctranslate2-int8", "ctranslate2-float32"
    systems = zip(names, (half, references, [""] * len(references)), strict=True)
    known = {"run": "student", "parameters": 9, "megabytes": 1}
    lines = [({**known, "system": name}, Quoting(found), list) for name, found in systems]
    monkeypatch.setattr(distil, "load_systems", lambda *_, **__: lines)
    output = tmp_path / "results.jsonl"
    options = {"split": "test", "tokenize": "13a", "rounds": 3, "systems": []}
    distil.compare(["student"], str(small), "pt", "en", **options, output=output)
    return [*distil.rows(output)], half, references


def test_compare_stores_the_intervals_of_resampled_sentences(compared):
    (line, perfect, wrong), translations, references = compared
    draw = np.random.default_rng(1)
    for metric, name in ((sacrebleu.BLEU(), "bleu"), (sacrebleu.CHRF(), "chrf")):
        scores = []
        for _ in range(400):
            some = draw.integers(len(references), size=len(references))
            pairs = [[texts[i] for i in some] for texts in (translations, references)]
            scores.append(metric.corpus_score(pairs[0], [pairs[1]]).score)
        low, high = np.percentile(scores, [2.5, 97.5])
        assert line[f"{name}_interval"] == pytest.approx((high - low) / 2, rel=0.2)
        assert (perfect[name], perfect[f"{name}_interval"]) == (100, 0)
        assert (wrong[name], wrong[f"{name}_interval"]) == (0, 0)
    assert line["sentences_per_second"] == len(references) / 2


@pytest.mark.long
@pytest.mark.exhaustive
def test_the_four_steps(python, small, run_dir, tmp_path):
    corpus = ["--source", "pt", "--target", "en"]
    script, results = ROOT / "examples/distil/distil.py", tmp_path / "results.jsonl"
    for command in (
        [script, "translate", run_dir, tmp_path / "taught", "--data", small, *corpus],
        [script, "filter", tmp_path / "taught", tmp_path / "distilled.tsv"],
        [
            "-m", "keras_mt", "train", "--data", tmp_path / "distilled.tsv", *corpus,
            "--tokenizer", run_dir, "--set", "num_layers=1", "--set", "d_model=32",
            "--set", "num_heads=2", "--set", "d_ff=32", "--steps", "3",
            "--output", tmp_path / "student",
        ],
        [
            script, "compare", run_dir, tmp_path / "student", "--data", small, *corpus,
            "--beam-size", "2", "--rounds", "1",
            "--systems", "keras_mt-float32,ctranslate2-float32",
            "--output", results,
        ],
    ):  # fmt: skip
        result = python(*command)
        assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert {line["run"] for line in lines} == {Path(run_dir).name, "student"}
    assert len(lines) == 4
    by_system = {(line["run"], line["system"]): line for line in lines}
    teacher = by_system[Path(run_dir).name, "keras_mt-float32"]
    assert teacher["bleu"] == by_system[Path(run_dir).name, "ctranslate2-float32"]["bleu"] > 30
    for line in lines:
        assert line["sentences"] == 8 and line["sentences_per_second"] > 0
        assert line["bleu"] <= teacher["bleu"] + 1 and line["megabytes"] > 0.01
        row = f"| {line['run']} | {line['system']} | {line['parameters']:,} | {line['bleu']:.1f} |"
        assert row in result.stdout
