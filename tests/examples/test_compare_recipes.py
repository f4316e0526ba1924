"""The recipes side by side: options that exist, and a page that says what was measured."""

import importlib.util
import re
import sys

import pytest
import rows
from conftest import ROOT

from keras_mt.options import TrainingOptions
from keras_mt.training import recipe


@pytest.fixture
def compare(monkeypatch):
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        monkeypatch.setenv(name, "1")  # The script sets them too: here they are set back.
    path = ROOT / "examples/recipes/compare.py"
    spec = importlib.util.spec_from_file_location("compare_recipes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_are_options_that_exist(compare):
    measured = recipe.measure([(b"O livro novo.", b"The new book.")] * 3000)
    baseline = {name: value for name, (value, _) in recipe.recommend(measured).items()}
    for changes in compare.ROWS.values():
        TrainingOptions(**compare.changed(baseline, changes))
    assert compare.changed(baseline, compare.ROWS["baseline"]) == baseline
    wide = compare.changed(baseline, compare.ROWS["128 wide"])
    assert wide["learning_rate"] == 2 * baseline["learning_rate"]
    assert wide["model"] == baseline["model"] | {"d_model": 128}
    assert compare.changed(baseline, compare.ROWS["half the batch"])["batch_tokens"] == (
        baseline["batch_tokens"] // 2
    )


def test_the_page_says_what_was_measured(compare):
    page = (compare.HERE / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"<!-- (?!end)(\w+) -->\n\n(.*?)\n<!-- end -->", page, re.DOTALL)
    results = compare.HERE / "results"
    assert dict(found) == {
        corpus: compare.table(rows.read(results / f"{corpus}.jsonl")) for corpus in compare.MINUTES
    }


def test_a_part_of_a_corpus_is_measured(compare, monkeypatch, tmp_path):
    data = tmp_path / "data" / "multi30k_en_de"
    data.mkdir(parents=True)
    for language in ("en", "de"):
        (data / f"{language}.train.txt").write_text("".join(f"{language} {i}\n" for i in range(5)))
        (data / f"{language}.validation.txt").write_text("a\nb\n")
    for name in ("README.md", "results/3.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("<!-- 3 -->\n<!-- end -->\n" if name == "README.md" else "")
    monkeypatch.setattr(compare, "DATA", tmp_path / "data")
    monkeypatch.setattr(compare, "HERE", tmp_path)
    monkeypatch.setattr(compare, "MINUTES", {"3": 1})
    trained = []

    def measured(corpus, dtype, folder, row):
        part, source, target = compare.corpus_of(corpus, folder)
        trained.append((row, dtype, rows.texts(part, source, target, "train")))
        assert len(rows.texts(part, source, target, "validation")) == 2
        return {"bleu": 9.96, "chrf": 30, "steps": 1200, "epochs": 3, "parameters": 4000}

    monkeypatch.setattr(compare, "measured", measured)
    command = ["compare.py", "3", "float32", "--dtype", "float32", "--output", str(tmp_path / "o")]
    monkeypatch.setattr(sys, "argv", command)
    for _ in range(2):  # What was measured is not measured again.
        compare.main()
    assert trained == [("float32", "float32", [(f"en {i}", f"de {i}") for i in range(3)])]
    *_, row, _, _ = (tmp_path / "README.md").read_text().splitlines()
    assert row == "| float32 | 10.0 | 30.0 | 1,200 | 3 | 4,000 |"
