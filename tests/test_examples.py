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
import numpy as np
import pytest
import sacrebleu
from conftest import ROOT

from keras_mt.data import phrasebook


@pytest.fixture
def run(python):
    """Runs an example; gives what it printed."""

    def run(name, *arguments):
        result = python(ROOT / "examples" / name, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.mark.long
def test_classify_with_a_layer(run):
    accuracy = float(run("classify_with_a_layer.py", 1).split("'accuracy': ")[1][:4])
    assert accuracy > 0.9


def test_translate_with_tensorflow(run, translator, exported):
    sentences = ["O livro está em cima da mesa.", "Olá, como vai você?"]
    out = run("translate_with_tensorflow.py", exported, *sentences)
    for sentence, (best, _) in zip(sentences, translator(sentences), strict=True):
        assert f"{sentence}\n  -> {best}  (-" in out


@pytest.mark.long
@pytest.mark.exhaustive
def test_masked_language_model(run, tmp_path):
    out = run(
        "masked_language_model.py", "--lines", 300, "--epochs", 1, "--seeds", 1,
        "--output", tmp_path,
    )  # fmt: skip
    assert re.search(r"^single words +50\.0% ", out, re.MULTILINE)
    scratch, pretrained = (
        float(re.search(rf"^{name} +([\d.]+)% ", out, re.MULTILINE)[1])
        for name in ("from scratch", "pretrained")
    )
    gain = float(re.search(r"^gain of pretraining: (\S+) points$", out, re.MULTILINE)[1])
    assert gain == pytest.approx(pretrained - scratch, abs=0.11)
    assert (tmp_path / "encoder.keras").is_file() and (tmp_path / "tokenizer.model").is_file()


@pytest.mark.long
@pytest.mark.exhaustive
def test_alignment_error_rates(run, run_dir):
    out = run("alignment/error_rate.py", run_dir)
    rates = {
        name: float(rate) for rate, name in re.findall(r"^ *([\d.]+)  (.+)$", out, re.MULTILINE)
    }
    assert rates["aligner, of words"] < 10 and rates["aligner, of pieces"] < 20
    assert sum("layer" in name for name in rates) > 1 and out.count("the best") == 1


def test_single_words_do_not_tell_who_does_it():
    from random import Random

    import masked_language_model as example

    texts, labels = example.labelled(Random(0), 200, each=2)
    assert len(set(texts)) == 200 and (labels[::2] + labels[1::2] == 1).all()
    for twin, other in zip(texts[::2], texts[1::2], strict=True):
        forms = [sorted(text.rstrip(".?").split()) for text in (twin, other)]
        assert forms[0] == forms[1] and twin[-1] == other[-1]
    train, labels = example.labelled(Random(1), 100, unlike=texts)
    assert not {*train} & {*texts} and 30 < labels.sum() < 70


@pytest.mark.long
def test_phrasebook_report(eager, run_dir, tmp_path, monkeypatch, capsys):
    copy = shutil.copytree(run_dir, tmp_path / "run")
    report = importlib.import_module("phrasebook_report")
    rows = {split: list(phrasebook.pairs(split)) for split in ("train", "test")}
    rows["test"] = rows["test"][:64]
    monkeypatch.setattr(phrasebook, "pairs", rows.get)
    report.main(copy)
    out = capsys.readouterr().out
    systems = ("word-for-word dictionary", "nearest training sentence", "keras_mt")
    dictionary, nearest, ours = (
        float(re.search(rf"{system} +([\d.]+)$", out, re.MULTILINE)[1]) for system in systems
    )
    assert 15 < dictionary < nearest < 70 < ours < 100
    picture = matplotlib.image.imread(copy / "attention.png")
    assert picture.min() < 0.3 and picture.std() > 0.05  # Something is drawn on white.


@pytest.fixture
def local(tmp_path):
    """Starts cluster/local.py with workers that run a script; gives its process."""
    started = []

    def start(script):
        (tmp_path / "keras_mt_command.py").write_text(script)  # python -m finds it in its folder.
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


# For each recipe its runs with what they begin from and learn from, and its ensembles.
MULTI30K = {
    "tiny": (
        [
            ("forward", None, ()), ("backward", None, ()),
            ("mixed", "forward", ("forward_data", "backward_data")), ("first", "mixed", ()),
            ("sampled", None, ()), ("second", "sampled", ()),
            ("", "first", ("taught", "taught_too")),
        ],
        [("forward", ()), ("backward", ()), ("first", ("second",)), ("first", ("second",))],
    ),
    "small": (
        [
            ("first", None, ()), ("second", None, ()), ("backward", None, ()),
            ("", "first", ("taught", "backward_data", "taught_too")),
            ("other", "second", ("taught", "backward_data", "taught_too")),
        ],
        [("backward", ()), ("first", ("second",)), ("first", ("second",))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("recipe", MULTI30K)
def test_multi30k_recipe_asks_for_options_that_exist(recipe, tmp_path):
    from keras_mt.cli import main

    shown = tmp_path / "keras-mt"
    shown.write_text('#!/bin/sh\n(echo "-- $1"; for each; do echo "$each"; done) >>"$0.calls"\n')
    shown.chmod(0o755)
    folder, run = tmp_path / "m", str(tmp_path / "a b")
    folder.mkdir()
    for language in ("en", "de"):
        (folder / f"{language}.train.txt").write_text(f"{language}\n")
    script = ROOT / "examples/multi30k/train.sh"
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", script, recipe, folder, run, "--bleu-freq", "2"],
        check=True,
        env={**os.environ, "PATH": path},
    )

    def made(part):
        return part if part is None else f"{run}_{part}" if part else run

    runs, ensembles = MULTI30K[recipe]
    for part, *_ in runs:
        Path(made(part)).mkdir()  # As the runs leave them.
        Path(made(part), "model.keras").touch()
    calls = [call.splitlines() for call in shown.with_suffix(".calls").read_text().split("-- ")[1:]]
    contexts = [(name, main.commands[name].make_context(name, rest)) for name, _, *rest in calls]
    trained = [context.params for name, context in contexts if name == "train"]
    assert [(each["output"], each["init"], each["data"]) for each in trained] == [
        (made(part), made(init), (str(folder), *map(made, data))) for part, init, data in runs
    ]
    for each, (part, *_) in zip(trained, runs, strict=True):
        assert each["source"] == ("de" if part == "backward" else "en")
        assert each["weights"] == "average" and each["preset"] == recipe
    assert trained[-1]["bleu_freq"] == 2
    translations = [context.params for name, context in contexts if name == "translate"]
    assert [(each["model"], each["ensemble"]) for each in translations] == [
        (made(part), tuple(map(made, others))) for part, others in ensembles
    ]
    assert Path(made("backward_data"), "de.train.txt").read_text() == "de\n"
    assert Path(made("taught"), "en.train.txt").read_text() == "en\n"
    for part in {part for *_, data in runs for part in data}:
        texts = {path.name for path in Path(made(part)).iterdir()}
        assert texts == {"en.train.txt", "de.train.txt"}


def test_multi30k_robust_measures_on_what_it_types(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples/multi30k")
    robust = importlib.import_module("robust")
    sources = ['a man \'s "big dog" runs .', "so &apos;is it &quot;", "It runs"]
    references = ["ein Hund läuft dort .", "das ist es auch so", "er rennt sehr schnell"]
    for language, lines in (("en", sources), ("de", references)):
        (tmp_path / f"{language}.test.txt").write_text("\n".join(lines) + "\n")
    asked = []

    def translator(texts):  # Knows what is written in the corpus alone.
        asked.append(list(texts))
        return [dict(zip(sources, references, strict=True)).get(text, "") for text in texts]

    monkeypatch.setattr(robust, "ExportedTranslator", lambda path: translator)
    monkeypatch.setattr(sys, "argv", ["robust.py", "model", str(tmp_path), "--tokenize", "none"])
    robust.main()
    assert asked == [
        sources,
        [],
        ['A MAN \'S "BIG DOG" RUNS .', "SO &apos;IS IT &quot;", "IT RUNS"],
        ['A Man \'s "Big Dog" Runs .', "So &apos;is It &quot;", "It Runs"],
        ['a man \'s "big dog" runs'],
        ['a  man  \'s  "big  dog"  runs  .', "so  &apos;is  it  &quot;", "It  runs"],
        ["a man ’s “big dog” runs .", "so ’is it “"],
    ]
    results = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    assert results["capitals"] == {"bleu": 0.0, "changed": 3, "plain": 100.0, "typed": 0.0}
    expected = sacrebleu.BLEU(tokenize="none").corpus_score(["", *references[1:]], [references])
    assert results["no final point"]["bleu"] == round(expected.score, 1)


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples/architectures")
    return importlib.import_module("compare")


@pytest.mark.long
def test_architectures_are_of_like_size(compare):
    from keras_mt.models import ensure_built, find_architecture
    from keras_mt.options import TrainingOptions

    for _, name, sizes in compare.ROWS.values():
        for corpus in compare.CORPORA.values():
            options = {**compare.COMMON, **corpus["training"]}
            TrainingOptions(architecture=name, model=sizes, **options)  # There are such options.
        architecture = find_architecture(name)
        model = ensure_built(architecture.from_preset("tiny", vocab_size=2000, **sizes))
        most = 2.5e6 if name == "mixture_of_experts" else 1.6e6
        assert 1.1e6 < model.count_params() < most


def test_architectures_lines(compare):
    pairs = [(str(i), str(-i)) for i in range(10)]
    lines = list(compare.joined(pairs, [2, 3]))
    assert lines == [
        ("0 1", "0 -1"), ("2 3 4", "-2 -3 -4"), ("5 6", "-5 -6"), ("7 8 9", "-7 -8 -9")
    ]  # fmt: skip


# With a corpus of a few hundred pairs, exports of one signature, and few lengths.
COMPARE = """
import functools, sys
sys.path.insert(0, "examples/architectures")
import compare
compare.CORPORA["phrasebook"]["data"] = sys.argv.pop(1)
compare.TEST_LINES = 1, 4, 8
export = compare.Translator.export  # The other signatures are not run.
compare.Translator.export = functools.partialmethod(export, signatures=["serving_default"])
compare.main()
"""


@pytest.mark.long
def test_architectures(python, corpus, tmp_path):
    arguments = corpus, "phrasebook", "fixed_vector", "--steps", 2, "--output", tmp_path
    result = python("-c", COMPARE, *arguments, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    results = tmp_path / "trial" / "phrasebook.jsonl"
    row = json.loads(results.read_bytes())
    assert row["steps"] == 2 and 0.8e6 < row["parameters"] < 1.6e6
    assert row["export_bytes"] > 4 * row["parameters"]
    lengths = [tokens for _, tokens, _ in row["bleu_by_length"]]
    assert lengths[0] > 5 and lengths[-1] > 5 * lengths[0]
    assert f"| GRU, no attention | {row['parameters']:,} |" in result.stdout
    picture = matplotlib.image.imread(tmp_path / "trial" / "bleu_by_length.png")
    color = np.array(matplotlib.colors.to_rgba("C0"), np.float32)
    assert np.isclose(picture, color, atol=1e-3).all(-1).any()


@pytest.mark.parametrize(
    "name", ["phrasebook_report", "translate_with_tensorflow", "cluster/local"]
)
def test_usage(python, name):
    result = python(ROOT / f"examples/{name}.py")
    assert result.returncode == 1 and "usage" in result.stderr


def test_two_corpora_are_joined_on_the_language_that_they_share(run, tmp_path):
    def write(name, source, target, *pairs):
        rows = [(source, target), *pairs]
        (tmp_path / name).write_text("".join(f"{text}\t{other}\n" for text, other in rows))
        return tmp_path / name

    first = write("de_en.tsv", "de", "en", ("Hund", "dog"), ("Katze", "cat"), ("Köter", "dog"))
    second = write("en_fr.tsv", "en", "fr", ("dog", "chien"), ("cup", "tasse"), ("dog", "cabot"))
    languages = "--languages", "de", "en", "fr"
    out = run("multilingual/join.py", first, second, tmp_path / "de_fr", *languages)
    assert out == "train: 2 pairs\n"
    assert (tmp_path / "de_fr" / "de.train.txt").read_text() == "Hund\nKöter\n"
    assert (tmp_path / "de_fr" / "fr.train.txt").read_text() == "chien\nchien\n"
