import csv
import json
import signal
import subprocess

import numpy as np
import pytest

from keras_mt import Translator
from keras_mt.training import train

pytestmark = pytest.mark.usefixtures("micro")

SMALL = {
    "preset": "micro",
    "vocab_size": 500,
    "warmup_steps": 20,
    "batch_tokens": 512,
    "max_length": 64,
}


def log_rows(run_dir):
    with open(run_dir / "log.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def weights(run_dir):
    return Translator.load(run_dir).models[0].get_weights()


def test_a_run_folder_holds_what_the_contract_says(run_dir):
    assert {p.name for p in run_dir.iterdir()} == {
        "model.keras", "tokenizer.model", "config.json", "log.csv", "checkpoints", "training.png",
    }  # fmt: skip
    config = json.loads((run_dir / "config.json").read_text(encoding="utf-8"))
    assert (config["source"], config["target"], config["preset"]) == ("pt", "en", "micro")
    assert config["dropout"] == 0.1 and config["label_smoothing"] == 0.1
    rows = log_rows(run_dir)
    assert rows[0]["event"] == "started" and rows[-1]["step"] == "100"
    validation = [float(row["val_loss"]) for row in rows if row["val_loss"]]
    assert len(validation) > 5 and validation[-1] < validation[0]
    training = [float(row["loss"]) for row in rows if row["loss"]]
    assert [row["step"] for row in rows if row["loss"]] == ["50", "100"]
    assert training[1] < training[0]
    assert float(rows[-1]["learning_rate"]) == pytest.approx(64**-0.5 * 100**-0.5, rel=0.02)


def test_the_log_counts_real_target_tokens(corpus, tmp_path):
    messages = []
    train(corpus, "pt", "en", tmp_path / "run", steps=3, report=messages.append, **SMALL)
    assert any("300 pairs; left out: 0 longer than 64 tokens, 0 blank" in m for m in messages)
    assert any("finished at step 3" in m for m in messages)


def test_a_run_that_goes_on_ends_where_an_unbroken_one_does(corpus, tmp_path):
    # An epoch has some ten steps: 7 ends in the middle of one, and so does 25.
    train(corpus, "pt", "en", tmp_path / "unbroken", steps=25, **SMALL)
    train(corpus, "pt", "en", tmp_path / "broken", steps=7, **SMALL)
    messages = []
    train(corpus, "pt", "en", tmp_path / "broken", steps=25, report=messages.append, **SMALL)
    assert any("resumed at step 7" in message for message in messages)
    events = [(row["step"], row["event"]) for row in log_rows(tmp_path / "broken") if row["event"]]
    assert events == [("0", "started"), ("7", "resumed")]
    for a, b in zip(weights(tmp_path / "unbroken"), weights(tmp_path / "broken"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_last_checkpoints_are_averaged(corpus, tmp_path):
    import tensorflow as tf

    train(corpus, "pt", "en", tmp_path / "run", steps=6, checkpoint_steps=2, average=2, **SMALL)
    checkpoints = [tmp_path / "run" / "checkpoints" / f"step-{step}" for step in (4, 6)]
    readers = [tf.train.load_checkpoint(str(path)) for path in checkpoints]
    averaged = sorted(weights(tmp_path / "run"), key=lambda w: (w.shape, w.sum()))
    expected = []
    for name in readers[0].get_variable_to_shape_map():
        if name.startswith("variables/") and int(name.split("/")[1]) < len(averaged):
            expected.append(sum(reader.get_tensor(name) for reader in readers) / 2)
    expected.sort(key=lambda w: (w.shape, w.sum()))
    for a, b in zip(averaged, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_killed_run_goes_on_from_its_last_checkpoint(corpus, tmp_path, command):
    arguments = [
        *command, "train", "--data", corpus, "--source", "pt", "--target", "en",
        "--output", tmp_path / "run", "--steps", "40", "--vocab-size", "500",
        "--batch-tokens", "512", "--max-length", "64", "--checkpoint-steps", "8",
    ]  # fmt: skip
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    checkpoints = 0
    for line in process.stdout:
        checkpoints += line.startswith("checkpoint at step")
        if checkpoints == 2:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "run" / "model.keras").exists()
    output = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    resumed = int(output.split("resumed at step ")[1].split()[0])
    assert resumed % 8 == 0 and 16 <= resumed < 40
    steps = [int(row["step"]) for row in log_rows(tmp_path / "run")]
    assert steps == sorted(steps) and steps[-1] == 40
    assert (str(resumed), "resumed") in [
        (row["step"], row["event"]) for row in log_rows(tmp_path / "run")
    ]


def test_a_finished_run_is_left_as_it_is(corpus, tmp_path, capsys):
    train(corpus, "pt", "en", tmp_path / "run", steps=3, **SMALL)
    log = (tmp_path / "run" / "log.csv").read_bytes()
    capsys.readouterr()
    train(corpus, "pt", "en", tmp_path / "run", steps=3, **SMALL)
    printed = capsys.readouterr().out
    assert "finished at step 3" in printed and "Epoch" not in printed
    assert (tmp_path / "run" / "log.csv").read_bytes() == log


def test_a_tsv_file_without_validation_is_enough(corpus, tmp_path):
    sides = [(corpus / f"{lang}.train.txt").read_text().splitlines() for lang in ("pt", "en")]
    rows = "".join(f"{pt}\t{en}\n" for pt, en in zip(*sides, strict=True))
    (tmp_path / "corpus.tsv").write_text(rows)
    train(tmp_path / "corpus.tsv", "pt", "en", tmp_path / "run", steps=2, **SMALL)
    assert (tmp_path / "run" / "model.keras").is_file()
    assert not any(row["val_loss"] for row in log_rows(tmp_path / "run"))


def test_a_folder_of_another_run_is_refused(run_dir, corpus, tmp_path):
    with pytest.raises(ValueError, match=r"vocab_size was 600, now 500"):
        train(corpus, "pt", "en", run_dir, steps=100, **SMALL)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty and holds no run"):
        train(corpus, "pt", "en", tmp_path, steps=1, **SMALL)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "huge"}, "tiny, base, big"),
        ({"epochs": 1, "steps": 1}, "not both"),
        ({"steps": 0}, "steps=0"),
        ({"epochs": -1}, "epochs=-1"),
        ({"average": 6}, "average=6"),
        ({"steps": 1, "max_length": 3}, "max_length=3"),
        ({"steps": 1, "vocab_size": 50}, "vocab_size=50 is too small"),
    ],
)
def test_impossible_arguments_are_refused(corpus, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        train(corpus, "pt", "en", tmp_path / "run", **{**SMALL, **options})
