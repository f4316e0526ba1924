import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def run(*arguments, cwd=None):
    result = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_classify_with_a_layer():
    accuracy = float(
        run(ROOT / "examples/classify_with_a_layer.py", 1).split("'accuracy': ")[1][:4]
    )
    assert accuracy > 0.9


def test_translate_with_tensorflow(run_dir, tmp_path):
    from keras_mt import Translator

    translator = Translator.load(run_dir)
    translator.export(tmp_path / "1")
    sentences = ["O livro está em cima da mesa.", "Olá, como vai você?"]
    out = run(ROOT / "examples/translate_with_tensorflow.py", tmp_path / "1", *sentences)
    for sentence, translation in zip(sentences, translator(sentences), strict=True):
        assert f"{sentence}\n  -> {translation}  (-" in out


def test_phrasebook_report(run_dir, tmp_path):
    copy = shutil.copytree(run_dir, tmp_path / "run")
    out = run(ROOT / "examples/phrasebook_report.py", copy)
    for system in ("word-for-word dictionary", "nearest training sentence", "keras_mt"):
        assert system in out
    for picture in ("training.png", "attention.png"):
        assert (copy / picture).read_bytes().startswith(b"\x89PNG")


def test_plot_schedule(tmp_path):
    run(ROOT / "examples/plot_schedule.py", tmp_path / "schedule.png")
    assert (tmp_path / "schedule.png").stat().st_size > 10_000


def test_cluster_on_this_machine(corpus, tmp_path):
    out = run(
        ROOT / "examples/cluster/local.py", 2, "--data", corpus, "--source", "pt", "--target", "en",
        "--output", tmp_path / "run", "--steps", 2, "--vocab-size", 500, "--max-length", 64,
        "--batch-tokens", 512, cwd=ROOT,
    )  # fmt: skip
    assert out.count("finished at step 2") == 1
    assert (tmp_path / "run" / "model.keras").is_file()


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
    for part in ("forward", "backward", "mixed"):  # As the runs leave them.
        Path(f"{run}_{part}").mkdir()
        Path(f"{run}_{part}/model.keras").touch()
    calls = [call.splitlines() for call in shown.with_suffix(".calls").read_text().split("-- ")[1:]]
    forward, backward, *translations, mixed, last = (
        main.commands[name].make_context(name, arguments).params for name, _, *arguments in calls
    )
    assert forward["output"] == mixed["init"] == translations[0]["model"] == f"{run}_forward"
    assert last["init"] == mixed["output"] == f"{run}_mixed" and last["data"] == (str(folder),)
    assert backward["output"] == translations[1]["model"] == f"{run}_backward"
    assert (backward["source"], backward["target"], backward["data"]) == (
        "de",
        "en",
        (str(folder),),
    )
    data = [Path(f"{run}_{part}_data") for part in ("forward", "backward")]
    assert mixed["data"] == tuple(map(str, [folder, *data]))
    assert (last["output"], last["epochs"], last["bleu_tokenize"]) == (run, 1, tokenize)
    assert (data[0] / "en.train.txt").read_text() == "en\n"
    assert (data[1] / "de.train.txt").read_text() == "de\n"
    assert (data[0] / "de.train.txt").exists() and (data[1] / "en.train.txt").exists()


def test_multi30k_ablation_asks_for_options_that_exist():
    from keras_mt.cli import main

    sys.path.insert(0, str(ROOT / "examples/multi30k"))
    import ablation

    for options in ablation.VARIANTS.values():
        arguments = ["--data", "x", "--output", "y", *ablation.LANGUAGES, *ablation.COMMON.split()]
        main.commands["train"].make_context("train", [*arguments, *options.split()])


@pytest.mark.parametrize(
    "name", ["phrasebook_report", "translate_with_tensorflow", "cluster/local"]
)
def test_usage(name):
    result = subprocess.run(
        [sys.executable, ROOT / f"examples/{name}.py"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1 and "usage" in result.stderr
