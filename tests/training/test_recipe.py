import json
import math

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies
from runs import assert_same_weights, log_rows

from keras_mt import Transformer
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.training import plan, session, train
from keras_mt.training.callbacks import TranslationScores
from keras_mt.training.corpora import Corpora
from keras_mt.training.distribution import Worker
from keras_mt.training.recipe import Statistics, measure, recommend
from keras_mt.training.resolve import DEFAULTS, resolve

pytestmark = pytest.mark.usefixtures("bare_end")

# What makes a test of the rest quick.
SMALL = {
    "model": {
        "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "use_bias": False,
        "norm": "rms",
    },
    "vocab_size": 400,
    "bleu_freq": 0,
}  # fmt: skip


def fitted(pairs, characters=62, longest=160, alphabet=0, operations=math.inf, **given):
    """The recommended options."""
    statistics = Statistics(pairs, characters, longest, alphabet)
    choices = recommend(statistics, TrainingOptions(**given), operations=operations)
    return {name: value for name, (value, _) in choices.items()}


@hypothesis.given(
    strategies.integers(1, 10**9), strategies.floats(1, 2000), strategies.integers(1, 5000)
)
def test_whatever_the_corpus_the_options_are_valid_and_each_has_its_reason(pairs, mean, longest):
    choices = recommend(Statistics(pairs, mean, longest))
    options, reasons = ({name: x[i] for name, x in choices.items()} for i in (0, 1))
    valid = TrainingOptions(**options)
    assert all(reasons.values())
    assert valid.max_length <= valid.batch_tokens
    assert ("few" in reasons["dropout"]) == (valid.dropout > 0.1)
    assert ("small" in reasons["batch_tokens"]) == (valid.batch_tokens < 25000)
    assert valid.model["d_model"] % valid.model["num_heads"] == 0
    larger = fitted(2 * pairs, mean, longest)
    assert larger["vocab_size"] >= options["vocab_size"]
    assert larger["batch_tokens"] >= options["batch_tokens"]
    assert larger["epochs"] <= options["epochs"]


@hypothesis.given(strategies.integers(1, 10**9), strategies.floats(1e10, 1e20))
def test_a_shorter_training_never_takes_a_larger_model_or_more_dropout(pairs, operations):
    short, long = (fitted(pairs, operations=x) for x in (operations, 10 * operations))
    for name in ("num_layers", "d_model", "d_ff"):
        assert short["model"][name] <= long["model"][name]
    assert short["dropout"] <= long["dropout"]
    assert TrainingOptions(**short)


@hypothesis.given(strategies.sampled_from([3_000, 29_000, 116_000]), strategies.floats(1e11, 1e17))
def test_a_smaller_model_is_for_a_training_without_ten_epochs_of_a_larger(pairs, operations):
    def epochs(options):
        """By hand: six operations for each weight that a piece meets, of four characters."""
        layers, d, d_ff = (options["model"][n] for n in ("num_layers", "d_model", "d_ff"))
        encoder, decoder = 4 * d**2 + 2 * d * d_ff, 8 * d**2 + 2 * d * d_ff
        weights = layers * (encoder + decoder) + d * options["vocab_size"]
        return operations / (pairs * 62 / 4 * 6 * weights)

    longest, found = fitted(pairs), fitted(pairs, operations=operations)
    model, tiny = found["model"], Transformer.presets["tiny"]["model"]
    assert epochs(found) >= 10 or model["d_model"] == tiny["d_model"]
    assert (model == longest["model"]) == (epochs(longest) >= 10)


def test_minutes_fit_the_training_of_a_preset_too(tmp_path):
    text = Corpora([], {}, measure([(b"O livro.", b"The book.")] * 300), [])

    def resolved(**given):
        request = RunConfig(["x"], "pt", "en", TrainingOptions(**given))
        worker = Worker(RunFolder(tmp_path), tf.distribute.get_strategy(), lambda _: None)
        return dict(vars(resolve(request, text, None, None, worker).options))

    own, preset = resolved(minutes=12), resolved(minutes=12, preset="tiny")
    assert own.pop("model")["d_model"] == 256 and preset.pop("model") is None
    assert (own["learning_rate"], preset["learning_rate"]) == (0.001, 0.002)
    changed = {name for name in own if own[name] != preset[name]}
    assert changed == {"preset", "learning_rate"} and preset["warmup_steps"] == 400
    given = {"learning_rate": 0.5, "dropout": 0.25, "vocab_size": 999}
    assert given.items() <= resolved(minutes=12, preset="tiny", **given).items()
    assert resolved(preset="tiny")["learning_rate"] is None
    # Of two cores with bfloat16, 12 minutes are few epochs of 116,000 captions in tiny.
    options = fitted(116_000, operations=720 * 2e11, preset="tiny", minutes=12)
    assert (options["dropout"], options["vocab_size"], options["batch_tokens"]) == (0.1, 4000, 2048)


def test_a_corpus_is_measured_in_characters():
    texts = [("é" * 10, "a" * 30)] * 600 + [("a" * 20, "b" * 3000)] * 600
    found = measure((one.encode(), other.encode()) for one, other in texts)
    assert found == (1200, 765.0, 3000, 3)
    ideographs = [(chr(0x4E00 + i) * 9).encode() for i in range(3000)]
    found = measure(zip(ideographs, ideographs, strict=True))
    assert recommend(found)["vocab_size"][0] == 6000


def config_of(run):
    return json.loads((run / "config.json").read_text(encoding="utf-8"))


def test_a_bare_run_keeps_what_was_recommended_and_what_is_given_wins(
    eager, brief_corpus, tmp_path
):
    messages, run = [], tmp_path / "run"
    given = {**SMALL, "dropout": 0.2, "batch_tokens": 200, "steps": 2}
    train(brief_corpus, "pt", "en", run, report=messages.append, **given)
    config = config_of(run)
    recommended = fitted(300, 25, 60)
    assert (config["fitted"], config["preset"], config["total_steps"]) == (True, None, 2)
    assert config["dropout"] == 0.2
    assert config["max_length"] == 200  # What a batch can hold.
    assert config["learning_rate"] == recommended["learning_rate"]
    assert config["model"] == {**recommended["model"], **SMALL["model"]}
    printed = "\n".join(messages)
    assert "  learning_rate: 0.001 (" in printed and "--minutes" in printed
    assert "  dropout" not in printed and "  epochs" not in printed
    rates = [float(row["learning_rate"]) for row in log_rows(run) if row["epoch"]]
    assert rates[-1] == pytest.approx(0.0)
    with pytest.raises(ValueError, match=r"falls to 0 at step 2, .* cannot end at step 3.*--init"):
        train(brief_corpus, "pt", "en", run, **{**given, "steps": 3})


BY_BLEU = {"weights": "best", "stop_after": 6}
AVERAGED = {"weights": "average", "bleu_freq": 0, "stop_after": None}


@pytest.mark.parametrize(
    ("given", "others"),
    [
        ({"bleu_freq": 5}, {**BY_BLEU, "epochs": 40}),
        ({"stop_after": 3}, {**BY_BLEU, "bleu_freq": 2}),
        ({"weights": "best"}, {**BY_BLEU, "bleu_freq": 2}),
        ({"weights": "last"}, {**BY_BLEU, "bleu_freq": 2}),
        ({"weights": "average"}, {**BY_BLEU, "bleu_freq": 2}),
        ({"epochs": 100}, {**BY_BLEU, "bleu_freq": 5}),
        ({"bleu_freq": 0}, {**AVERAGED, "epochs": 40}),
        ({"bleu_freq": 41}, AVERAGED),
        ({"epochs": 3, "bleu_freq": 4}, AVERAGED),
        ({"minutes": 9}, {**AVERAGED, "epochs": None, "steps": None}),
        ({"minutes": 9, "bleu_freq": 1}, AVERAGED),
        ({"steps": 9, "weights": "best"}, AVERAGED),
        ({"minutes": 9, "weights": "last"}, AVERAGED),
    ],
)
def test_an_option_that_is_given_changes_no_other_that_goes_with_it(given, others):
    options, expected = TrainingOptions(**given), {**others, **given}
    options = options.completed(fitted(3_000, **given), DEFAULTS)
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize("weights", [None, "best", "average", "last"])
@pytest.mark.parametrize(
    ("given", "monitor"),
    [
        ({}, "val_bleu"),
        ({"steps": 2}, "val_loss"),
        ({"bleu_freq": 41}, "val_loss"),
        ({"preset": "tiny"}, "val_loss"),
        ({"preset": "tiny", "minutes": 1}, None),
        ({"preset": "tiny", "epochs": 1, "bleu_freq": 1}, "val_bleu"),
        ({"preset": "tiny", "epochs": 1, "bleu_freq": 2, "checkpoint_steps": 9}, "val_loss"),
    ],
)
def test_no_choice_of_weights_contradicts_another_option(given, monitor, weights):
    options = TrainingOptions(**given, weights=weights)
    recommended = {"dropout": 0.1} if "preset" in given else fitted(3_000, **given)
    options = options.completed(recommended, DEFAULTS)
    config = RunConfig(["x"], "en", "de", options, fitted="preset" not in given)
    last = plan.last_step(config, 3)
    assert last is monitor is None or plan.monitor(options, last, 3) == monitor


@pytest.mark.long
def test_a_fitted_run_ends_when_its_bleu_no_longer_rises(eager, one_pair, tmp_path, monkeypatch):
    def measure(self, epoch, logs=None):
        logs.update(val_bleu=12.5, val_chrf=25.0)

    monkeypatch.setattr(TranslationScores, "on_epoch_end", measure)
    messages, run = [], tmp_path / "run"
    given = {**SMALL, "bleu_freq": 1, "stop_after": 2}
    train(one_pair, "pt", "en", run, report=messages.append, **given)
    scores = [row["val_bleu"] for row in log_rows(run) if row["val_bleu"]]
    # The first, and as many as stop_after without a better one; of 40 epochs.
    assert len(scores) == 3 and len({*scores}) == 1
    assert any("val_bleu" in message for message in messages)


class Clock:
    """One on which some seconds pass whenever it is read."""

    now, seconds = 0.0, 1

    def monotonic(self):
        self.now += self.seconds
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (plan, session):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.long
def test_minutes_set_the_number_of_steps_once(eager, clock, brief_corpus, tmp_path, monkeypatch):
    clock.seconds = 10
    for name, value in (("_UNTIMED", 2), ("TIMED_STEPS", 3), ("_FEWEST_STEPS", 3)):
        monkeypatch.setattr(plan, name, value)
    messages, output = [], tmp_path / "run"
    given = {**SMALL, "minutes": 1}
    train(brief_corpus, "pt", "en", output, report=messages.append, **given)
    steps = config_of(output)["total_steps"]
    assert 3 < steps < 6
    assert float(log_rows(output)[-1]["learning_rate"]) == pytest.approx(0.0)
    assert any(f"{steps:,} steps fit into 1 minutes" in message for message in messages)
    assert f"finished at step {steps}: {output}" in messages[-1]
    again = []
    train(brief_corpus, "pt", "en", output, report=again.append, **given)
    assert config_of(output)["total_steps"] == steps and "finished at step" in again[-1]
    with pytest.raises(ValueError, match=r"minutes was 1.*, now 5"):
        train(brief_corpus, "pt", "en", output, **{**given, "minutes": 5})


@pytest.fixture
def timed(clock, monkeypatch):
    """Steps are timed, and none is made."""

    def only_timed(run, worker, start, last, callbacks, validates=True):
        for step in range(0 if validates else last):
            callbacks[-1].set_model(run.model)
            callbacks[-1].on_train_batch_end(step)
            if run.model.stop_training:
                break

    monkeypatch.setattr(session, "_fit", only_timed)


@pytest.mark.usefixtures("timed")
def test_too_few_minutes_say_how_many_are_enough(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"minutes=0\.01 is too short .* Give at least \d+\."):
        train(corpus, "pt", "en", tmp_path / "run", **SMALL, minutes=0.01)
    with pytest.raises(ValueError, match="`epochs`, `steps` or `minutes`, only one"):
        train(corpus, "pt", "en", tmp_path / "run", **SMALL, minutes=1, epochs=1)


@pytest.mark.usefixtures("timed")
def test_minutes_go_with_an_epoch_of_one_batch(tmp_path):
    rows = "".join(f"the {i} books\tdie {i} Bücher\n" for i in range(10))
    (tmp_path / "pairs.tsv").write_text(rows)
    output = train(tmp_path / "pairs.tsv", "en", "de", tmp_path / "run", **SMALL, minutes=1)
    assert 20 <= config_of(output)["total_steps"] < 60


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.usefixtures("micro", "clock")
def test_minutes_go_with_pairs_and_a_preset_and_an_exact_resume(corpus, tmp_path):
    stop_at = [None]

    def report(message):
        if message == stop_at[0]:
            raise RuntimeError("stopped")

    given = {
        "pairs": {"pt-en": corpus, "en-pt": corpus}, "preset": "micro", "vocab_size": 400,
        "batch_tokens": 512, "max_length": 64, "report": report,
    }  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with pytest.raises(ValueError, match=r"too short .* Give at least 1\."):
        train(**given, output=whole, minutes=0.2)
    train(**given, output=whole, minutes=1)
    steps = config_of(whole)["total_steps"]
    assert 20 < steps < 60 and config_of(whole)["preset"] == "micro"
    rows = log_rows(whole)
    assert float([row for row in rows if row["epoch"]][-1]["learning_rate"]) < 1e-5
    assert any(row["val_loss"] for row in rows)
    stop_at[0] = f"checkpoint at step {steps // 2}"
    with pytest.raises(RuntimeError, match="stopped"):
        train(**given, output=broken, minutes=1)
    train(**given, output=broken, minutes=1)
    assert config_of(broken)["total_steps"] == steps
    assert_same_weights(broken, whole)
