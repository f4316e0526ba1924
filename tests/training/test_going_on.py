"""What a run is, and what may be other when it goes on."""

import json
import re
import shutil
import sys
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf
from conftest import bare_ends, op_by_op
from runs import assert_same_weights, log_rows

from keras_mt import Tokenizer, Translator
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.training import architecture, compiling, session, train
from keras_mt.training.checkpoints import average_run
from keras_mt.training.corpora import existing_tokenizer
from keras_mt.training.resolve import with_fingerprints

pytestmark = pytest.mark.usefixtures("micro", "bare_end")

SMALL = {"preset": "micro", "vocab_size": 500, "batch_tokens": 512, "max_length": 64}


@pytest.fixture(scope="module")
def begun(corpus, micro, tmp_path_factory):
    """A run of two steps whose recipe is none of the preset's."""
    output = tmp_path_factory.mktemp("begun") / "run"
    recipe = {
        "warmup_steps": 21, "label_smoothing": 0.2, "dropout": 0.15, "clip_norm": 2.0,
        "learning_rate": 1e-3, "rdrop_weight": 0.5,
    }  # fmt: skip
    with op_by_op(), bare_ends():
        train(corpus, "pt", "en", output, steps=2, checkpoint_steps=1, **SMALL, **recipe)
    return output


@pytest.fixture
def copy(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "run")


def config(run_dir):
    return json.loads((run_dir / "config.json").read_text())


def go_on(corpus, output, **options):
    """Gives the command of `begun` again."""
    recipe = {name: config(output)[name] for name in (
        "warmup_steps", "label_smoothing", "dropout", "clip_norm", "learning_rate", "rdrop_weight",
    )}  # fmt: skip
    return train(corpus, "pt", "en", output, **{**SMALL, "steps": 2, **recipe, **options})


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_a_finished_run_without_its_checkpoints_is_not_overwritten(corpus, copy):
    shutil.rmtree(copy / "checkpoints")
    before = contents(copy)
    with pytest.raises(ValueError, match=r"training would overwrite.*`--init .*run`"):
        go_on(corpus, copy)
    assert contents(copy) == before


def test_an_averaged_folder_is_not_trained_into(corpus, copy, tmp_path):
    averaged = average_run(copy, tmp_path / "averaged", last=2)
    before = contents(averaged)
    with pytest.raises(ValueError, match="training would overwrite"):
        go_on(corpus, averaged)
    assert contents(averaged) == before


@pytest.mark.usefixtures("untrained")
def test_a_run_that_was_stopped_before_its_first_checkpoint_begins_again(corpus, copy, tmp_path):
    shutil.rmtree(copy / "checkpoints")
    (copy / "model.keras").unlink()
    # As a cluster leaves it before the corpora are encoded: they may be others then.
    before = config(copy)
    (copy / "config.json").write_text(json.dumps({**before, "fingerprints": None}))
    other, messages = changed(corpus, tmp_path / "other", "pt", "train", swap), []
    go_on(other, copy, report=messages.append)
    assert any("finished at step 0" in message for message in messages)
    assert config(copy)["data"] == [str(other)]
    assert config(copy)["fingerprints"] != before["fingerprints"]


def test_minutes_are_not_given_to_a_run_that_was_begun_without(corpus, copy):
    with pytest.raises(ValueError, match=r"other arguments: minutes was None, now 5\.0\. Give"):
        go_on(corpus, copy, steps=None, minutes=5)


@pytest.mark.usefixtures("untrained")
def test_a_checkpoint_of_other_variables_is_not_called_damaged(corpus, copy, tmp_path, monkeypatch):
    adam = keras.optimizers.Adam
    monkeypatch.setattr(
        compiling.keras.optimizers, "Adam", lambda *a, **k: adam(*a, amsgrad=True, **k)
    )
    messages = []
    with pytest.raises(
        ValueError, match=r"step-2 is whole, but its variables are .*keras-mt average"
    ) as info:
        go_on(corpus, copy, steps=3, report=messages.append)
    assert "remove" not in str(info.value) and not any("damaged" in m for m in messages)
    # What the message advises works, with the other variables too.
    averaged = average_run(copy, tmp_path / "averaged", last=1)
    assert_same_weights(averaged, copy)


def test_damaged_checkpoints_are_said_to_be(corpus, copy):
    for data in (copy / "checkpoints").glob("*.data-*"):
        data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"Every checkpoint in .* is damaged: put them back"):
        go_on(corpus, copy, steps=3)


@pytest.mark.usefixtures("untrained")
def test_fine_tuning_takes_the_recipe_of_the_run_it_begins_from(corpus, begun, tmp_path):
    base = config(begun)
    recipe = (
        "dropout", "label_smoothing", "rdrop_weight", "warmup_steps", "learning_rate", "clip_norm",
        "batch_tokens", "gradient_accumulation_steps", "max_length", "preset", "architecture",
    )  # fmt: skip
    options = {"init": begun, "checkpoint_steps": 1, "label_smoothing": 0.05, "seed": 3}
    tuned = train(corpus, "pt", "en", tmp_path / "run", steps=1, **options)
    expected = {**{name: base[name] for name in recipe}, "label_smoothing": 0.05}
    assert {name: config(tuned)[name] for name in recipe} == expected
    assert config(tuned)["model_config"]["dropout"] == 0.15 and config(tuned)["seed"] == 3
    with pytest.raises(ValueError, match="preset is that of init, 'micro'"):
        train(corpus, "pt", "en", tmp_path / "x", steps=1, **options, preset="tiny")
    # It goes on by the same command where the other run is no more.
    begun.rename(tmp_path / "elsewhere")
    try:
        train(corpus, "pt", "en", tuned, steps=1, **options)
        with pytest.raises(ValueError, match=r"dropout was 0\.15, now 0\.3"):
            train(corpus, "pt", "en", tuned, steps=2, **options, dropout=0.3)
    finally:
        (tmp_path / "elsewhere").rename(begun)


def changed(corpus, folder, language, split, change):
    copy = shutil.copytree(corpus, folder)
    path = copy / f"{language}.{split}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    change(lines)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return copy


def swap(lines):
    lines[0], lines[1] = lines[1], lines[0]


def test_the_same_corpus_may_lie_elsewhere_and_another_is_refused(corpus, copy, tmp_path):
    elsewhere = shutil.copytree(corpus, tmp_path / "elsewhere")
    messages = []
    go_on(elsewhere, copy, report=messages.append)
    assert any("resumed at step 2" in message for message in messages)
    assert config(copy)["data"] == [str(elsewhere)]
    other = changed(corpus, tmp_path / "other", "pt", "train", swap)
    message = r"other has changed .* 300 pairs before, 300 now.*same order"
    with pytest.raises(ValueError, match=message):
        go_on(other, copy)


def test_corpora_that_have_changed_are_named(begun):
    begun = RunFolder(begun).config
    prints = begun.fingerprints["corpora"]
    assert [each["pairs"] for each in prints] == [300, 20]

    def resumed(prints):
        return with_fingerprints(begun, SimpleNamespace(validation={"": None}), None, prints)

    assert resumed(prints) == begun
    shorter, other = {**prints[0], "pairs": 299}, {**prints[1], "sha256": "0"}
    for found, message in (
        ([shorter, prints[1]], "corpus0 has changed .* 300 pairs before, 299 now"),
        ([prints[0], other], "the validation split of .*corpus0 has changed .* 20 now"),
        ([prints[0], *prints], "2 corpora, counting validation, .* 3"),
    ):
        with pytest.raises(ValueError, match=message):
            resumed(found)


def test_a_run_takes_a_tokenizer_that_is_there(begun, tmp_path):
    tokenizer = Tokenizer.load(begun / "tokenizer.model")

    def taken(given, folder=tmp_path):
        options = TrainingOptions(tokenizer=given, vocab_size=500)
        return existing_tokenizer(RunFolder(folder), options, None, pytest.fail)

    for given in (begun, begun / "tokenizer.model", tokenizer):
        assert taken(given).model == taken(given, begun).model == tokenizer.model
    other = Tokenizer.train(["other text altogether"] * 9, 300)
    with pytest.raises(ValueError, match="a run with another tokenizer"):
        taken(other, begun)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        taken(tmp_path / "nowhere")


@pytest.mark.usefixtures("untrained")
def test_arguments_of_the_model_are_set_and_kept(corpus, tmp_path):
    model = {"d_ff": 32, "pre_norm": True, "dropout": 0.2, "alignment_head": (0, 1)}
    options = {**SMALL, "steps": 1, "model": model, "corpus_weights": (1,)}
    output = train(corpus, "pt", "en", tmp_path / "run", **options)
    found = RunFolder(output).load_model().get_config()
    assert (found["d_ff"], found["pre_norm"], found["dropout"]) == (32, True, 0.2)
    assert config(output)["model"] == {"d_ff": 32, "pre_norm": True, "alignment_head": [0, 1]}
    assert config(output)["model_config"]["d_ff"] == 32 and config(output)["dropout"] == 0.2
    options["model"] = {**model, "d_ff": 48}
    # Nothing but d_ff differs, not the tuples either.
    with pytest.raises(ValueError) as refused:
        train(corpus, "pt", "en", output, **options)
    was, now = re.fullmatch(
        r".* other arguments: model was {'d_ff': 32, (.*)}, now {'d_ff': 48, (.*)}\. Give .*",
        str(refused.value),
    ).groups()
    assert was == now == "'pre_norm': True, 'alignment_head': [0, 1]"
    for model, message in (
        (
            {"num_head": 2},
            "no argument .num_head.\\. Its arguments are .vocab_size., .num_",
        ),
        ({"num_heads": 3}, "cannot be made with {'num_heads': 3}: The width of the query"),
        ({"activation": "no_such"}, r"cannot be made with .*Its arguments are 'vocab_size'"),
        ({"vocab_size": 9}, "vocab_size was given twice: 500, and 9 for the model"),
        ({"padding_id": 9}, "padding_id is the tokenizer's"),
    ):
        with pytest.raises(ValueError, match=message):
            train(corpus, "pt", "en", tmp_path / "new", **{**SMALL, "model": model})
    assert not (tmp_path / "new" / "config.json").exists()


OWN = """
import keras, keras_mt

@keras.saving.register_keras_serializable("going_on")
class Own(keras_mt.Transformer):
    presets = {}

    def __init__(self, vocab_size, width=16, **kwargs):
        sizes = {"num_layers": 1, "d_model": width, "num_heads": 2, "d_ff": 16, **kwargs}
        super().__init__(vocab_size, **sizes)

    def get_config(self):
        config = super().get_config()
        return {"width": config.pop("d_model"), **config}
"""


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_an_architecture_of_ones_own_is_trained_averaged_and_tuned(corpus, tmp_path, monkeypatch):
    validation = [path.name for path in corpus.glob("*.validation.*")]
    corpus = shutil.copytree(corpus, tmp_path / "corpus", ignore=lambda *_: validation)
    (tmp_path / "going_on.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    name = "going_on:Own"
    options = {
        "architecture": name, "vocab_size": 500, "batch_tokens": 512, "checkpoint_steps": 1,
        "model": {"width": 32},
    }  # fmt: skip
    output = train(corpus, "pt", "en", "run", steps=1, **options)
    kept = config(output)
    assert (kept["architecture"], kept["model"], kept["preset"]) == (name, {"width": 32}, None)
    assert kept["model_config"]["width"] == 32
    monkeypatch.setattr(session, "_fit", lambda *arguments: None)
    messages = []
    train(corpus, "pt", "en", output, steps=2, **options, report=messages.append)
    assert any("resumed at step 1" in message for message in messages)
    average_run(output, "averaged", last=1, architecture=name)
    own = sys.modules.pop("going_on").Own
    for folder in (output, tmp_path / "averaged"):
        for known in (name, own):
            model = Translator.load(folder, architecture=known).models[0]
            assert type(model).__name__ == "Own" and model.d_model == 32
    tuned = {"batch_tokens": 512, "steps": 1, "init": output}
    for refused in (
        lambda: average_run(output, "no", last=1),
        lambda: train(corpus, "pt", "en", "no", **tuned),
        lambda: Translator.load(output),
    ):
        with pytest.raises(ValueError, match="`architecture`"):
            refused()
    other = {**options, "architecture": "transformer", "preset": "micro", "model": None}
    with pytest.raises(ValueError, match=r"architecture was 'going_on:Own', now 'transformer'"):
        train(corpus, "pt", "en", output, steps=3, **other)
    train(corpus, "pt", "en", "tuned", **tuned, architecture=name)
    assert config(tmp_path / "tuned")["model_config"]["width"] == 32
    messages.clear()
    with pytest.raises(ValueError, match="`architecture`"):  # The folder's word is not enough.
        train(corpus, "pt", "en", "tuned", **{**tuned, "steps": 2}, report=messages.append)
    assert messages == ["training on the CPU"]  # Nothing was encoded.
    sys.modules.pop("going_on", None)


EXPERTS = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "sparse_step": 1}
KINDS = {
    "guided pairs": {
        "data": None, "source": None, "target": None, "pairs": ["pt-en", "en-pt"],
        "guided_alignment": True, "rdrop_weight": 0.5,
    },
    "adapters": {"lora_rank": 2, "init": "run_dir", "preset": None, "vocab_size": None},
    "experts": {
        "architecture": "mixture_of_experts", "preset": "tiny", "model": EXPERTS,
        "dtype": "mixed_bfloat16", "subword_sampling": 0.2,
    },
}  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "kind", [*list(KINDS)[:2], pytest.param("experts", marks=pytest.mark.exhaustive)]
)
def test_a_run_goes_on_from_the_last_checkpoint_that_is_whole(kind, corpus, run_dir, tmp_path):
    (tmp_path / "data").mkdir()
    for code in ("pt", "en"):
        lines = (corpus / f"{code}.train.txt").read_text().splitlines(keepends=True)
        (tmp_path / "data" / f"{code}.train.txt").write_text("".join(lines[:30]))
    options = {"data": tmp_path / "data", "source": "pt", "target": "en", **SMALL, **KINDS[kind]}
    if kind == "adapters":
        options["init"] = run_dir
    if "pairs" in options:
        options["pairs"] = dict.fromkeys(options["pairs"], tmp_path / "data")
    options |= {"gradient_accumulation_steps": 2, "warmup_steps": 2, "checkpoint_steps": 1}
    options |= {"batch_tokens": 256, "steps": 2}
    whole = train(output=tmp_path / "whole", **options)
    broken = shutil.copytree(whole, tmp_path / "broken")
    readers = (tf.train.load_checkpoint(whole / "checkpoints" / f"step-{i}") for i in (1, 2))
    before, after = (each.get_tensor("variables/1/.ATTRIBUTES/VARIABLE_VALUE") for each in readers)
    assert (before != after).any()
    if kind == "adapters":
        assert not before.any()  # The first batch is half of an update.
    # It was broken off there, as it wrote the next checkpoint and the log.
    data = broken / "checkpoints" / "step-2.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-100])
    with open(broken / "log.csv", "a") as log:
        log.write("2,3,3.")
    messages = []
    train(output=broken, report=messages.append, **options)
    assert any("step-2 is damaged" in m and "the one before" in m for m in messages)
    assert any("resumed at step 1" in m for m in messages)
    events = [(row["step"], row["event"]) for row in log_rows(broken) if row["event"]]
    assert events == [("0", "started"), ("1", "resumed")]
    assert_same_weights(broken, whole)


def test_an_architecture_is_given_what_it_takes(monkeypatch):
    class Plain:
        presets = {"only": {"model": {"units": 3, "dropout": 0.9}, "training": {}}}  # noqa: RUF012

        def __init__(self, vocab_size, units, dropout, padding_id, *, depth=1, **kwargs):
            self.taken = {**locals(), **kwargs}

    monkeypatch.setattr(architecture, "ensure_built", lambda model: model)
    model = {"depth": 2}
    options = TrainingOptions(
        max_length=9, dropout=0.5, dtype="float32", preset="only", model=model
    )
    config = RunConfig(["x"], "en", "de", options)
    tokenizer = SimpleNamespace(vocab_size=300, padding_id=0)
    taken = architecture.make_model(config, tokenizer, None, Plain).taken
    assert {name: taken[name] for name in taken if name not in ("self", "kwargs")} == {
        "vocab_size": 300, "units": 3, "dropout": 0.5, "padding_id": 0, "depth": 2,
    }  # fmt: skip
