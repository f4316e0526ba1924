import json
import re
import resource
import shutil
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from command import keras_mt
from conftest import op_by_op
from runs import assert_same_weights, log_rows, start, weights
from tensorflow.core.util import event_pb2

from keras_mt import Translator
from keras_mt.convert import import_model
from keras_mt.data import Batches, load_corpus, phrasebook
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import LOG_COLUMNS, RunFolder
from keras_mt.training import callbacks, compile_for_translation, session, train
from keras_mt.training.callbacks import KeepBest, TranslationScores
from keras_mt.training.checkpoints import average_run
from keras_mt.training.distribution import Worker

pytestmark = pytest.mark.usefixtures("micro", "bare_end")

SMALL = {
    "preset": "micro",
    "vocab_size": 500,
    "warmup_steps": 20,
    "batch_tokens": 512,
    "max_length": 64,
}
# Beside `init`, whose preset it is.
TUNED = {name: value for name, value in SMALL.items() if name != "preset"}


# Two epochs and a step, with a checkpoint each.
TRAINED = {**SMALL, "steps": 7, "checkpoint_steps": 1, "weights": "average", "tensorboard": True}


@pytest.fixture(scope="module")
def messages():
    """What `trained` reported."""
    return []


@pytest.fixture(scope="module")
def trained(brief_corpus, micro, messages, tmp_path_factory):
    """A run folder with checkpoints and a row of the log each five steps, which no test changes."""
    output = tmp_path_factory.mktemp("runs") / "trained"
    with op_by_op(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(callbacks, "_ROW_STEPS", 5)
        patch.setattr(session, "choose_head", lambda *_: None)
        train(brief_corpus, "pt", "en", output, report=messages.append, **TRAINED)
    return output


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "copy")


def test_a_run_folder_holds_what_the_contract_says(trained):
    assert {p.name for p in trained.iterdir()} == {
        "model.keras", "tokenizer.model", "config.json", "log.csv", "checkpoints", "training.png",
        "tensorboard",
    }  # fmt: skip
    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    assert (config["source"], config["target"], config["preset"]) == ("pt", "en", "micro")
    assert config["dropout"] == 0.1 and config["label_smoothing"] == 0.1
    rows = log_rows(trained)
    assert rows[0]["event"] == "started" and rows[-1]["step"] == "7"
    validation = [float(row["val_loss"]) for row in rows if row["val_loss"]]
    assert len(validation) == 3 and validation[-1] < validation[0]
    training = [float(row["loss"]) for row in rows if row["loss"]]
    assert [int(row["step"]) for row in rows if row["loss"]] == [3, 5, 6, 7]
    assert training[-1] < training[0] < np.log(500) + 1  # Untrained, it is no better than chance.
    assert float(rows[-1]["learning_rate"]) == pytest.approx(64**-0.5 * 8 * 20**-1.5, rel=0.02)
    assert float(rows[1]["tokens_per_second"]) > 0


def test_a_run_tells_what_it_trains_on_and_where_it_ended(trained, brief_corpus, messages):
    pairs = len((brief_corpus / "pt.train.txt").read_text().splitlines())
    expected = f"{pairs} pairs; left out: 0 longer than 64 tokens, 0 blank"
    assert any(expected in message for message in messages)
    assert any("finished at step 7" in message for message in messages)


def test_the_last_checkpoints_are_averaged(trained):
    checkpoints = [trained / "checkpoints" / f"step-{step}" for step in range(3, 8)]
    readers = [tf.train.load_checkpoint(path) for path in checkpoints]
    for i, averaged in enumerate(weights(trained)):
        name = f"variables/{i}/.ATTRIBUTES/VARIABLE_VALUE"
        expected = sum(reader.get_tensor(name) for reader in readers) / 5
        np.testing.assert_allclose(averaged, expected, atol=1e-6)


# Steps to be killed at, below 0 while the checkpoint of that step is written: where it goes on.
KILLS = {1: 0, 3: 2, -4: 2, 5: 4}


@pytest.mark.long
@pytest.mark.parametrize(
    "kills", [[-4], pytest.param([*KILLS], marks=pytest.mark.exhaustive)], ids=len
)
def test_kills_change_nothing(python_command, brief_corpus, tmp_path, kills):
    options = {
        **SMALL, "steps": 6, "checkpoint_steps": 2, "weights": "average", "subword_sampling": 0.2,
    }  # fmt: skip

    def trained(kill_at, name="broken"):
        """The status, the steps and the output of a process."""
        process = start(
            python_command,
            brief_corpus,
            tmp_path / name,
            kill_at=kill_at,
            eager=True,
            **options,
        )
        output = process.communicate()[0]
        steps = re.findall(r"^computed (\d+)$", output, re.MULTILINE)
        return process.returncode, [*map(int, steps)], output

    # Of the checkpoints that are averaged the first is before the end of an epoch.
    trained(0, "unbroken")
    computed = []
    for kill_at in kills:
        status, steps, _ = trained(kill_at)
        assert status == -signal.SIGKILL and steps[-1] == abs(kill_at) - (kill_at < 0)
        computed += steps
    status, steps, output = trained(0)
    assert status == 0 and f"resumed at step {KILLS[kills[-1]]}" in output
    assert {*computed, *steps} == {*range(1, 7)} and steps[0] == KILLS[kills[-1]] + 1
    assert_same_weights(tmp_path / "unbroken", tmp_path / "broken")
    resumed = [row["step"] for row in log_rows(tmp_path / "broken") if row["event"] == "resumed"]
    assert resumed == [str(KILLS[kill]) for kill in kills if KILLS[kill]]


@pytest.mark.long
def test_a_death_in_validation_loses_no_measurement(eager, one_pair, tmp_path, monkeypatch):
    options = {**SMALL, "epochs": 1, "bleu_freq": 1, "checkpoint_steps": 1}

    def die(self, epoch, logs=None):
        raise KeyboardInterrupt

    def measure(self, epoch, logs=None):
        logs.update(val_bleu=12.5, val_chrf=25.0)

    monkeypatch.setattr(TranslationScores, "on_epoch_end", die)
    with pytest.raises(KeyboardInterrupt):
        train(one_pair, "pt", "en", tmp_path / "run", **options)
    monkeypatch.setattr(TranslationScores, "on_epoch_end", measure)
    train(one_pair, "pt", "en", tmp_path / "run", **options)
    measured = [row["step"] for row in log_rows(tmp_path / "run") if row["val_bleu"]]
    assert measured == ["1"]


def test_scores_need_a_text():
    pairs = tf.data.Dataset.from_tensor_slices((["a"], ["b"])).take(0)
    with pytest.raises(ValueError, match="at least one pair"):
        TranslationScores(None, {"": pairs}, 1, "13a")


def test_a_measurement_that_is_not_finite_is_not_the_best():
    log = [{"val_loss": x} for x in ("3", "nan", "2", "nan")]
    worker = Worker(RunFolder("run"), tf.distribute.get_strategy())
    best = KeepBest(worker, TrainingOptions(), "val_loss", log)
    assert best._best() == 2


def test_a_loss_that_is_not_finite_stops_the_run(eager, brief_corpus, tmp_path):
    options = {"steps": 9, "checkpoint_steps": 1, "learning_rate": 1e30}
    with pytest.raises(FloatingPointError, match=r"nan at step 2; .* checkpoint: step 1, in"):
        train(brief_corpus, "pt", "en", tmp_path / "run", **{**SMALL, **options})
    rows = log_rows(tmp_path / "run")
    assert all("nan" not in row.values() for row in rows)


def train_command(corpus, output, *options):
    arguments = ["--data", corpus, "--source", "pt", "--target", "en", "--output", output]
    return keras_mt("train", *arguments, *options, exit_code=1)


def test_a_full_disk_gives_a_message(untrained, brief_corpus, tmp_path):
    options = (f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A checkpoint has more than half a megabyte.
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
    try:
        result = train_command(brief_corpus, tmp_path / "run", *options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    message = result.stderr.splitlines()[-1]
    path = tmp_path / "run" / "checkpoints" / "step-0"
    assert message.startswith(f"Error: The checkpoint {path} could not be written: ")
    assert "File too large" in message and "Free space on that disk" in message


def test_a_folder_that_cannot_be_written_gives_a_message(corpus):
    result = train_command(corpus, "/proc/run", "--steps", 2)
    assert "/proc/run" in result.stderr.splitlines()[-1]


@pytest.mark.long
def test_mixed_precision_keeps_weights_and_model_in_float32(eager, one_pair, tmp_path):
    train(one_pair, "pt", "en", tmp_path / "run", steps=1, **SMALL, dtype="mixed_bfloat16")
    model = Translator.load(tmp_path / "run").models[0]
    assert model.compute_dtype == "float32" and {w.dtype for w in model.weights} == {"float32"}


@pytest.mark.long
def test_early_stopping_keeps_the_best_and_holds_when_called_again(eager, one_pair, tmp_path):
    # The rate is far too high, so that it is soon no better.
    options = {
        **SMALL, "epochs": 12, "learning_rate": 0.2, "warmup_steps": 2, "weights": "best",
        "stop_after": 1,
    }  # fmt: skip
    messages = []
    train(one_pair, "pt", "en", tmp_path / "run", **options, report=messages.append)
    losses = [float(row["val_loss"]) for row in log_rows(tmp_path / "run") if row["val_loss"]]
    assert len(losses) < 12 and len(losses) - 2 == int(np.argmin(losses))
    assert any(f"no better val_loss than {min(losses)}" in message for message in messages)
    log = (tmp_path / "run" / "log.csv").read_bytes()
    kept = weights(tmp_path / "run")
    train(one_pair, "pt", "en", tmp_path / "run", **options, report=messages.append)
    assert (tmp_path / "run" / "log.csv").read_bytes() == log
    tokenizer = Translator.load(tmp_path / "run").tokenizer
    validation = Batches(
        load_corpus(one_pair, "pt", "en", "validation"),
        tokenizer,
        tokens_per_batch=512,
        max_length=64,
    )
    model = RunFolder(tmp_path / "run").load_model()
    assert_same_weights(kept, model)
    compile_for_translation(model)
    loss = model.evaluate(validation.epoch(0), verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(min(losses), rel=1e-3)
    (tmp_path / "run" / "checkpoints" / "best.weights.h5").unlink()
    train(one_pair, "pt", "en", tmp_path / "run", **options, report=messages.append)
    assert any("takes the last weights, not the best" in message for message in messages)
    assert not np.array_equal(weights(tmp_path / "run")[0], kept[0])


@pytest.mark.long
def test_a_validation_split_of_long_sentences_alone_is_not_measured(eager, brief_corpus, tmp_path):
    folder = shutil.copytree(brief_corpus, tmp_path / "corpus")
    for language in ("pt", "en"):
        (folder / f"{language}.validation.txt").write_text("palavra " * 80 + "\n")
    with pytest.raises(
        ValueError, match="no validation split with pairs of at most max_length=64 tokens"
    ):
        train(folder, "pt", "en", tmp_path / "run", steps=1, stop_after=1, **SMALL)
    train(folder, "pt", "en", tmp_path / "run", steps=1, **SMALL)
    assert not any(row["val_loss"] for row in log_rows(tmp_path / "run"))


def test_bleu_is_that_of_the_translations(corpus):
    pairs = load_corpus(corpus, "pt", "en", "validation")
    texts = [[text.decode() for text in pair] for pair in pairs.as_numpy_iterator()]
    sources, references = zip(*texts, strict=True)
    known = {s: t.replace("the", "a") for s, t in zip(sources, references, strict=True)}
    known[sources[3]] = None
    translator = SimpleNamespace(
        hypotheses=lambda texts: [
            [SimpleNamespace(text=t)] if t else [] for t in map(known.get, texts)
        ]
    )
    scores, logs = TranslationScores(translator, {"": pairs}, 2, "13a"), {}
    scores.on_epoch_end(0, logs)
    assert logs == {}
    scores.on_epoch_end(1, logs)
    translations = [text or "" for text in known.values()]
    for name, score in (("val_bleu", sacrebleu.corpus_bleu), ("val_chrf", sacrebleu.corpus_chrf)):
        expected = score(translations, [references]).score
        assert logs[name] == pytest.approx(expected) and 50 < expected < 99


def test_fine_tuning_begins_with_another_runs_model_and_tokenizer(
    untrained, brief_corpus, run_dir, tmp_path
):
    base, tuned, messages = tmp_path / "base", tmp_path / "run", []
    shutil.copytree(run_dir, base)
    options = {**TUNED, "init": base, "vocab_size": 700}
    train(brief_corpus, "pt", "en", tuned, steps=1, report=messages.append, **options)
    assert any(f"model: that of {base}, " in message for message in messages)
    assert any("vocab_size=700 is ignored" in message for message in messages)
    assert (tuned / "tokenizer.model").read_bytes() == (run_dir / "tokenizer.model").read_bytes()
    base.rename(tmp_path / "elsewhere")  # From now on the run does without.
    average_run(tuned, tmp_path / "averaged", last=1)
    options["init"] = f"{base}/"
    train(brief_corpus, "pt", "en", tuned, steps=2, report=messages.append, **options)
    for each in (tuned, tmp_path / "averaged"):
        assert_same_weights(each, run_dir)


def test_tensorboard_holds_what_the_log_does(trained):
    files = sorted((trained / "tensorboard").glob("*tfevents*"))
    events = map(event_pb2.Event.FromString, tf.data.TFRecordDataset(files).as_numpy_iterator())
    written = {(e.step, v.tag): v.simple_value for e in events for v in e.summary.value}
    logged = {
        (int(row["step"]), name): float(row[name])
        for row in log_rows(trained)
        for name in set(LOG_COLUMNS) - {"step", "epoch", "seconds", "event"}
        if row[name]
    }
    assert written == pytest.approx(logged)
    assert {step for step, name in written if name == "val_loss"} == {3, 6, 7}


def test_average_makes_a_run_folder(copy, tmp_path):
    average_run(copy, tmp_path / "averaged", last=5)
    assert_same_weights(copy, tmp_path / "averaged")
    (copy / "model.keras").unlink()  # As of a run that is not at its end.
    average_run(copy, tmp_path / "half", last=5, dtype="bfloat16")
    rounded = [tf.cast(w, "bfloat16") for w in weights(tmp_path / "averaged")]
    assert_same_weights(rounded, tmp_path / "half")
    sizes = [(tmp_path / name / "model.keras").stat().st_size for name in ("averaged", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    with pytest.raises(ValueError, match="has 5 checkpoints, not 6"):
        average_run(copy, tmp_path / "other", last=6)
    with pytest.raises(FileExistsError, match="averaged exists"):
        average_run(copy, tmp_path / "averaged")
    data = copy / "checkpoints" / "step-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"One of the last 2 checkpoints .* cannot be read \("):
        average_run(copy, tmp_path / "other", last=2)


def test_a_finished_run_is_left_as_it_is(brief_corpus, copy, capsys):
    log = (copy / "log.csv").read_bytes()
    capsys.readouterr()
    train(brief_corpus, "pt", "en", copy, **TRAINED)
    printed = capsys.readouterr().out
    assert "finished at step 7" in printed and "Epoch" not in printed
    assert (copy / "log.csv").read_bytes() == log


def test_a_tsv_file_without_validation_is_enough(eager, corpus, tmp_path):
    sides = [(corpus / f"{lang}.train.txt").read_text().splitlines() for lang in ("pt", "en")]
    rows = "".join(f"{pt}\t{en}\n" for pt, en in zip(*sides, strict=True))
    (tmp_path / "corpus.tsv").write_text(rows)
    train(tmp_path / "corpus.tsv", "pt", "en", tmp_path / "run", steps=1, **SMALL)
    assert (tmp_path / "run" / "model.keras").is_file()
    assert not any(row["val_loss"] for row in log_rows(tmp_path / "run"))


def test_a_folder_of_another_run_is_refused(trained, brief_corpus, tmp_path):
    with pytest.raises(ValueError, match=r"vocab_size was 500, now 600"):
        train(brief_corpus, "pt", "en", trained, **{**TRAINED, "vocab_size": 600})
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty and holds no run"):
        train(brief_corpus, "pt", "en", tmp_path, steps=1, **SMALL)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_with_nothing_but_hidden_names_is_taken(tmp_path):
    (tmp_path / ".config.json.abc").mkdir()  # Of a run that was killed as it wrote.
    RunFolder(tmp_path).check_usable()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "huge"}, "tiny, small, base, big"),
        ({"epochs": 1, "steps": 1}, "only one"),
        ({"steps": 0}, "steps=0"),
        ({"epochs": -1}, "epochs=-1"),
        ({"data": []}, r"data must name at least one corpus. Received: \[\]"),
        ({"corpus_weights": [1, 1]}, r"one for each corpus. Received: \[1, 1\] for"),
        ({"corpus_weights": [0]}, r"corpus_weights must be positive .* Received: \[0\] for"),
        ({"steps": 1, "vocab_size": 50}, "vocab_size=50 is too small"),
        ({"batch_tokens": 60, "max_length": 64}, "batch_tokens=60 must be at least max_length=64"),
        ({"bleu_freq": -1}, "bleu_freq=-1"),
        ({"warmup_steps": 0}, "warmup_steps=0"),
        ({"learning_rate": 0.0}, r"learning_rate=0\.0"),
        ({"clip_norm": -1.0}, r"clip_norm=-1\.0"),
        ({"dropout": 1.5}, r"dropout=1\.5"),
        ({"label_smoothing": 2.0}, r"label_smoothing=2\.0"),
        ({"dropout": 0.0, "rdrop_weight": 5.0}, r"rdrop_weight=5\.0"),
        ({"rdrop_weight": -1.0}, r"rdrop_weight=-1\.0"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**32}, "seed=4294967296"),
        (
            {"augment": "caps,upper"},
            "augment has no kind 'upper'; there are caps, title, punct",
        ),
        ({"weights": "mean"}, "weights must be one of best, average, last"),
    ],
)
def test_impossible_arguments_are_refused(corpus, tmp_path, options, message):
    arguments = {"data": corpus, "source": "pt", "target": "en", **SMALL, **options}
    with pytest.raises(ValueError, match=message):
        train(**arguments, output=tmp_path / "run")
    assert not any((tmp_path / "run").glob("*"))


def test_a_corpus_of_sentences_that_are_too_long_is_refused(corpus, tmp_path):
    with pytest.raises(ValueError, match="no pair of at most max_length=3 tokens: raise"):
        train(corpus, "pt", "en", tmp_path / "run", **{**SMALL, "steps": 1, "max_length": 3})
    assert not any((tmp_path / "run").glob("*"))


@pytest.mark.long
def test_an_imported_model_is_tuned_gently(untrained, brief_corpus, golden, tmp_path):
    import_model(golden / "marian", tmp_path / "base")
    options = {"init": tmp_path / "base", "batch_tokens": 512}
    train(brief_corpus, "pt", "en", tmp_path / "run", steps=1, **options)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    names = ("max_length", "dropout", "learning_rate", "warmup_steps", "label_smoothing")
    assert [config[name] for name in names] == [96, None, 5e-5, 100, 0.0]
    assert config["model_config"]["dropout"] == 0.0


def mean_log_prob(run_dir, pairs):
    scores = Translator.load(run_dir).score(*map(list, zip(*pairs, strict=True)))
    return np.mean([score.log_prob for score in scores])


@pytest.mark.long
@pytest.mark.exhaustive
def test_an_imported_model_gets_better_from_the_first_steps_on(corpus, golden, tmp_path):
    """With the options of a model from scratch its log-probability would fall by 0.4."""
    import_model(golden / "marian", tmp_path / "base")
    pairs = list(phrasebook.pairs("test"))[:60]  # Like those that it was trained on.
    before = mean_log_prob(tmp_path / "base", pairs)
    options = {"init": tmp_path / "base", "batch_tokens": 512}
    train(corpus, "pt", "en", tmp_path / "run", steps=50, **options)
    assert mean_log_prob(tmp_path / "run", pairs) > before + 0.1


@pytest.mark.long
def test_a_model_with_learned_positions_keeps_its_limit(untrained, corpus, tmp_path):
    learned = {"num_layers": 1, "d_model": 8, "num_heads": 2, "d_ff": 8, "positions": "learned"}
    base, tuned, messages = tmp_path / "base", tmp_path / "tuned", []
    options = {**SMALL, "preset": "tiny", "steps": 1, "model": learned}
    train(corpus, "pt", "en", base, **options)
    options = {"init": base, "max_length": 80, "steps": 1, "report": messages.append}
    with pytest.raises(ValueError, match=r"cannot be copied with max_length=80.*learns its pos"):
        train(corpus, "pt", "en", tuned, **options)
    assert messages == ["training on the CPU"]  # Nothing was encoded.
    assert not any(tuned.glob("*"))
