import importlib
import json

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def decode():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("decode")


def rounds(seconds, translations=None):
    return [
        {"seconds": s, "amount": 100, "memory": 1000.0, "translations": translations}
        for s in seconds
    ]


def test_a_line_for_each_system_with_the_median(decode, tmp_path):
    results = {
        "keras_mt-float32": rounds([2.0, 9.0, 1.0]),
        "ctranslate2-float32": rounds([4.0, 5.0, 3.0]),
    }
    decode.report("base-b32", results, tmp_path / "lines.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [(line["system"], line["value"]) for line in lines] == [
        ("keras_mt-float32", 50.0), ("ctranslate2-float32", 25.0),
    ]  # fmt: skip
    for line in lines:
        assert line["benchmark"] == "decode" and line["workload"] == "base-b32"
        assert line["unit"] == "sentences/s" and line["versions"]["tensorflow"]


def test_no_figures_of_systems_that_do_different_work(decode, tmp_path):
    results = {
        "keras_mt-float32": rounds([1.0], ["same"] * 100),
        "ctranslate2-float32": rounds([1.0], ["same"] * 98 + ["other"] * 2),
    }
    with pytest.raises(SystemExit, match="same work"):
        decode.report("tiny-text", results, tmp_path / "lines.jsonl")
    assert not (tmp_path / "lines.jsonl").exists()


def test_an_unknown_workload_is_named(python):
    result = python(ROOT / "benchmarks" / "decode.py", "--workloads", "huge")
    assert result.returncode == 1
    assert "There is no workload 'huge'; there are base-b32" in result.stderr
