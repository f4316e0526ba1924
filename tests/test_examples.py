import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import pytest
from conftest import ROOT


@pytest.fixture
def run(python):
    """Runs an example; gives what it printed."""

    def run(name, *arguments):
        result = python(ROOT / "examples" / name, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_classify_with_a_layer(run):
    accuracy = float(run("classify_with_a_layer.py", 1).split("'accuracy': ")[1][:4])
    assert accuracy > 0.9


def test_translate_with_tensorflow(run, translator, exported):
    sentences = ["O livro está em cima da mesa.", "Olá, como vai você?"]
    out = run("translate_with_tensorflow.py", exported, *sentences)
    for sentence, (best, _) in zip(sentences, translator(sentences), strict=True):
        assert f"{sentence}\n  -> {best}  (-" in out


@pytest.mark.long
def test_phrasebook_report(run, run_dir, tmp_path):
    copy = shutil.copytree(run_dir, tmp_path / "run")
    out = run("phrasebook_report.py", copy)
    systems = ("word-for-word dictionary", "nearest training sentence", "keras_mt")
    dictionary, nearest, ours = (
        float(re.search(rf"{system} +([\d.]+)$", out, re.MULTILINE)[1]) for system in systems
    )
    assert 0 < dictionary < nearest < 70 < ours < 100
    picture = matplotlib.image.imread(copy / "attention.png")
    assert picture.min() < 0.3 and picture.std() > 0.05  # Something is drawn on white.


def test_plot_schedule(run, tmp_path):
    run("plot_schedule.py", tmp_path / "schedule.png")
    picture = matplotlib.image.imread(tmp_path / "schedule.png")
    colours = {tuple(colour) for colour in (picture[..., :3] * 255).astype(int).reshape(-1, 3)}
    assert {(31, 119, 180), (255, 127, 14), (44, 160, 44)} <= colours  # A curve for each preset.


@pytest.mark.long
def test_cluster_on_this_machine(corpus, run_dir, tmp_path):
    arguments = [
        ROOT / "examples/cluster/local.py", 2, "--data", corpus, "--source", "pt", "--target", "en",
        "--output", tmp_path / "run", "--init", run_dir, "--steps", 2, "--max-length", 64,
        "--batch-tokens", 512,
    ]  # fmt: skip
    result = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False,
        cwd=ROOT,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("finished at step 2") == 1
    assert (tmp_path / "run" / "model.keras").is_file()


@pytest.fixture
def local(tmp_path):
    """Starts cluster/local.py with workers that run a script; gives its process."""
    started = []

    def start(script):
        (tmp_path / "keras_mt.py").write_text(script)  # python -m finds it in its folder.
        command = [sys.executable, ROOT / "examples/cluster/local.py", "3", "--data", "x"]
        started.append(subprocess.Popen(command, cwd=tmp_path))
        return started[0]

    yield start
    started[0].kill()
    started[0].wait()


def children_of(process, number):
    file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(200):
        if len(children := file.read_text().split()) == number:
            return children
        time.sleep(0.05)
    raise AssertionError(f"not {number} but {len(children)} children")


def test_cluster_on_this_machine_ends_when_a_worker_fails(local):
    process = local(
        "import json, os, sys, time\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['index'] == 1: sys.exit(3)\n"
        "time.sleep(100)\n"
    )
    assert process.wait(timeout=60) == 1


def test_cluster_on_this_machine_ends_its_workers_when_it_is_ended(local):
    process = local("import time\ntime.sleep(100)\n")
    children = children_of(process, 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_kubernetes_runs_a_command_that_exists():
    import yaml

    from keras_mt.cli import main

    job = yaml.safe_load((ROOT / "examples/cluster/tfjob.yaml").read_text(encoding="utf-8"))
    assert job["kind"] == "TFJob"
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == "tensorflow" and container["command"] == ["keras-mt", "train"]
    main.commands["train"].make_context("train", list(container["args"]))
    (mount,) = container["volumeMounts"]
    assert [volume["name"] for volume in pod["volumes"]] == [mount["name"]]


@pytest.mark.parametrize(("name", "tokenize"), [("m_tokenized", "none"), ("m", "13a")])
def test_multi30k_recipe_asks_for_options_that_exist(name, tokenize, tmp_path):
    from keras_mt.cli import main

    shown = tmp_path / "keras-mt"
    shown.write_text('#!/bin/sh\n(echo "-- $1"; for each; do echo "$each"; done) >>"$0.calls"\n')
    shown.chmod(0o755)
    folder, run = tmp_path / name, str(tmp_path / "a b")
    folder.mkdir()
    for language in ("en", "de"):
        (folder / f"{language}.train.txt").write_text(f"{language}\n")
    command = ["sh", ROOT / "examples/multi30k/train.sh", folder, run, "--epochs", "1"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})

    def made(part):
        return f"{run}_{part}" if part else run

    def data_of(*parts):
        return tuple(map(str, [folder, *map(made, parts)]))

    for part in ("forward", "backward", "mixed", "first", "sampled", "second"):
        Path(made(part)).mkdir()  # As the runs leave them.
        Path(made(part), "model.keras").touch()
    calls = [call.splitlines() for call in shown.with_suffix(".calls").read_text().split("-- ")[1:]]
    contexts = [(name, main.commands[name].make_context(name, rest)) for name, _, *rest in calls]
    trained = [context.params for name, context in contexts if name == "train"]
    assert [(each["output"], each["init"], each["data"]) for each in trained] == [
        (made("forward"), None, data_of()),
        (made("backward"), None, data_of()),
        (made("mixed"), made("forward"), data_of("forward_data", "backward_data")),
        (made("first"), made("mixed"), data_of()),
        (made("sampled"), None, data_of()),
        (made("second"), made("sampled"), data_of()),
        (made(""), made("first"), data_of("taught", "taught_too")),
    ]
    assert [each["source"] for each in trained] == ["en", "de", "en", "en", "en", "en", "en"]
    assert (trained[-1]["epochs"], trained[-1]["bleu_tokenize"]) == (1, tokenize)
    translations = [context.params for name, context in contexts if name == "translate"]
    assert [(each["model"], each["ensemble"]) for each in translations] == [
        (made("forward"), ()),
        (made("backward"), ()),
        (made("first"), (made("second"),)),
        (made("first"), (made("second"),)),
    ]
    for part, source in (("forward_data", "en"), ("backward_data", "de"), ("taught", "en")):
        assert Path(made(part), f"{source}.train.txt").read_text() == f"{source}\n"
    for part in ("forward_data", "backward_data", "taught", "taught_too"):
        texts = {path.name for path in Path(made(part)).iterdir()}
        assert texts == {"en.train.txt", "de.train.txt"}


def test_multi30k_ablation_asks_for_options_that_exist():
    from keras_mt.cli import main

    sys.path.insert(0, str(ROOT / "examples/multi30k"))
    import ablation

    for options in ablation.VARIANTS.values():
        arguments = ["--data", "x", "--output", "y", *ablation.LANGUAGES, *ablation.COMMON.split()]
        main.commands["train"].make_context("train", [*arguments, *options.split()])


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples/architectures")
    return importlib.import_module("compare")


def test_architectures_are_of_like_size(compare):
    from keras_mt.models import built, find_architecture
    from keras_mt.options import TrainingOptions

    assert set(compare.STYLES) == set(compare.ROWS)
    for row in compare.ROWS.values():
        options = {name: value for name, value in row.items() if name != "title"}
        for corpus in compare.CORPORA.values():
            options = {**options, **compare.COMMON, **corpus["training"]}
            TrainingOptions.of("train", options)  # There are such options.
        architecture = find_architecture(row["architecture"])
        model = built(architecture.from_preset("tiny", vocab_size=2000, **row.get("model", {})))
        most = 2.5e6 if row["architecture"] == "mixture_of_experts" else 1.6e6
        assert 1.1e6 < model.count_params() < most


def test_architectures_lines(compare):
    pairs = [(str(i), str(-i)) for i in range(10)]
    lines = list(compare.joined(pairs, [2, 3]))
    assert lines == [
        ("0 1", "0 -1"), ("2 3 4", "-2 -3 -4"), ("5 6", "-5 -6"), ("7 8 9", "-7 -8 -9")
    ]  # fmt: skip


@pytest.mark.long
def test_architectures(run, tmp_path):
    arguments = ["architectures/compare.py", "phrasebook", "fixed_vector", "--steps", 2]
    out = run(*arguments, "--output", tmp_path)
    results = tmp_path / "trial" / "phrasebook.jsonl"
    before = results.read_bytes()
    row = json.loads(before)
    assert row["steps"] == 2 and 1.1e6 < row["parameters"] < 1.6e6
    assert row["export_bytes"] > 4 * row["parameters"]
    lengths = [tokens for _, tokens, _ in row["bleu_by_length"]]
    assert lengths[0] > 5 and lengths[-1] > 5 * lengths[0]
    assert f"| GRU, no attention | {row['parameters']:,} |" in out
    picture = matplotlib.image.imread(tmp_path / "trial" / "bleu_by_length.png")
    assert (0xD5, 0x5E, 0) in set(map(tuple, (picture[..., :3] * 255).astype(int).reshape(-1, 3)))
    assert "GRU, no attention |" in run(*arguments, "--output", tmp_path)  # It is done already.
    assert results.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["phrasebook_report", "translate_with_tensorflow", "cluster/local"]
)
def test_usage(python, name):
    result = python(ROOT / f"examples/{name}.py")
    assert result.returncode == 1 and "usage" in result.stderr
