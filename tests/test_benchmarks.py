import importlib
import json
import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def decode():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("decode")


def rounds(seconds, translations=None, threads="1"):
    same = {"amount": 100, "memory": 1000.0, "translations": translations, "threads": threads}
    same |= {"resident": 900.4, "first_cpu_seconds": 5.0, "disk": 3 * 2**20}
    return [{**same, "seconds": s, "cpu_seconds": s, "tried": {threads: 100 / s}} for s in seconds]


def test_a_line_for_each_system_with_the_median_and_one_of_the_best(decode, tmp_path):
    results = {
        "keras_mt-float32": rounds([2.0, 9.0, 1.0]),
        "keras_mt-bfloat16": rounds([8.0]),
        "ctranslate2-float32": rounds([5.0]),
        "ctranslate2-int8": rounds([4.0, 5.0, 3.0], threads="2x1"),
    }
    decode.report("base-b32", results, tmp_path / "lines.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [(line["system"], line["value"]) for line in lines] == [
        ("keras_mt-float32", 50.0), ("keras_mt-bfloat16", 12.5),
        ("ctranslate2-float32", 20.0), ("ctranslate2-int8", 25.0), ("best/best", 2.0),
    ]  # fmt: skip
    assert (lines[0]["resident_mb"], lines[0]["disk_mb"]) == (900, 3.0)
    for line in lines:
        assert line["benchmark"] == "decode" and line["workload"] == "base-b32"
        assert line["instructions"] == "all" and line["versions"]["tensorflow"]
    assert {line["unit"] for line in lines[:-1]} == {"sentences/s"}
    best = [lines[-1][name] for name in ("ours", "peer", "ours_threads", "peer_threads")]
    assert best == ["keras_mt-float32", "ctranslate2-int8", "1", "2x1"]


@pytest.mark.long
def test_each_system_has_its_best_layout(decode, tmp_path):
    """Two are faster with two callers, one of them if these have processes of their own."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import sys, time, harness\n"
        "alone, beside = map(float, sys.argv[1:])\n"
        "def run():\n"
        "    time.sleep(alone if harness.own_layout()[0] == 1 else beside)\n"
        "    return {'amount': 1}\n"
        "harness.serve(run)\n"
    )
    commands = {
        name: [sys.executable, str(script), *map(str, seconds)]
        for name, seconds in {"a": (0.1, 0.1), "b": (0.1, 0.45), "c": (0.5, 1.5)}.items()
    }
    results = decode.harness.take_turns(
        commands, 2, {"2x1": (2, 1), "1": (1, 1)}, apart=["b"],
        PYTHONPATH=str(ROOT / "benchmarks"),
    )  # fmt: skip
    assert {name: found[0]["threads"] for name, found in results.items()} == {
        "a": "2x1", "b": "2x1", "c": "2x1",
    }  # fmt: skip
    assert [len(found) for found in results.values()] == [2, 2, 1]
    assert results["a"][0]["amount"] == 2
    assert set(results["b"][0]["tried"]) == {"1", "2x1"}


def test_no_figures_of_systems_that_do_different_work(decode, tmp_path):
    results = {
        "keras_mt-float32": rounds([1.0], ["same"] * 100),
        "ctranslate2-float32": rounds([1.0], ["same"] * 98 + ["other"] * 2),
    }
    with pytest.raises(SystemExit, match="same work"):
        decode.report("tiny-text", results, tmp_path / "lines.jsonl")
    assert not (tmp_path / "lines.jsonl").exists()


def test_translations_of_a_text_are_compared_with_those_of_float32(decode, tmp_path):
    results = {
        "keras_mt-float32": rounds([1.0], ["same"] * 4),
        "keras_mt-litert_int8": rounds([1.0], ["same"] * 3 + ["other"]),
    }
    decode.report("tiny-text", results, tmp_path / "lines.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["agreement"] for line in lines] == [1.0, 0.75]


@pytest.mark.usefixtures("decode")
@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("decode", ["--workloads", "huge"], "There is no workload 'huge'; there are base-b32"),
        ("decode", ["--peers", "keras_mt,x"], "There is no peer 'x'; there are keras_mt, ctr"),
        ("train", ["--workloads", "huge"], "There is no workload 'huge'; there are tiny"),
        ("serve", ["x", "--text", "y", "--workloads", "z"], "There is no workload 'z'; there are"),
        ("serve_load", ["--models=x", "--text=y", "--workloads=z"], "There is no workload 'z'"),
    ],
)
def test_an_unknown_name_is_refused(script, arguments, message, monkeypatch):
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    with pytest.raises(SystemExit, match=message):
        importlib.import_module(script).main()


def test_tables_of_the_lines(decode, tmp_path):
    tables = importlib.import_module("tables")
    lines = tmp_path / "lines.jsonl"
    for workload, seconds in (("base-b32", 2.0), ("base-b1", 50.0)):
        results = {"keras_mt-float32": rounds([seconds]), "ctranslate2-int8": rounds([4.0])}
        decode.report(workload, results, lines)
    rows = tables.tables(list(map(json.loads, lines.read_text().splitlines()))).splitlines()
    assert rows[:5] == [
        "| Decoding, sentences per second | base-b32 | base-b1 |",
        "| --- | --- | --- |",
        "| keras_mt-float32 | 50.00 (1; 1,000 MB) | 2.00 (1; 1,000 MB) |",
        "| ctranslate2-int8 | 25.00 (1; 1,000 MB) | 25.00 (1; 1,000 MB) |",
        "| best/best | **2.00** (keras_mt-float32 over ctranslate2-int8) "
        "| **0.08** (keras_mt-float32 over ctranslate2-int8) |",
    ]


def test_a_padded_vocabulary_cuts_a_text_as_the_short_one(decode, tmp_path):
    text = tmp_path / "text"
    text.write_text("a man walks in the snow\na woman walks\n" * 20, encoding="utf-8")
    padded = decode.padded_tokenizer(text, tmp_path / "padded.model", 1000)
    assert padded.vocab_size == 1000
    ids = padded.tokenize(["a man walks"]).to_list()[0]
    assert max(ids) < 500 and padded.detokenize([ids]).numpy() == [b"a man walks"]


@pytest.mark.long
def test_a_server_under_load_loses_and_mixes_nothing(tmp_path):
    texts = ["A man sleeps.", "Two dogs run.", "A cat.", "A woman reads a book.", "Children play."]
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8")
    subprocess.run(
        [
            sys.executable, str(ROOT / "benchmarks" / "serve_load.py"),
            "--models", str(ROOT / "saved_models" / "multi30k_en_de_litert"),
            "--text", str(tmp_path / "texts"), "--output", str(tmp_path / "lines.jsonl"),
            "--workloads=rates,kills", "--callers=6", "--rates=5", "--seconds=2", "--requests=90",
        ],
        check=True,
        timeout=120,
    )  # fmt: skip
    rates, kills = map(json.loads, (tmp_path / "lines.jsonl").read_text().splitlines())
    assert rates["at 5/s: requests"] > 0 == rates["at 5/s: not answered"]
    assert kills["requests"] == 90 and kills["workers killed"] >= 1
    assert kills["not answered"] == kills["other answers than alone"] == 0
