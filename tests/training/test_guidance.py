"""Guided alignment, and the head that is chosen where none is guided."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Tokenizer, Transformer
from keras_mt.data import Batches
from keras_mt.data.encoded import Links
from keras_mt.models import Recurrent
from keras_mt.run_folder import RunFolder
from keras_mt.training import compile_for_translation, train
from keras_mt.training.checkpoints import average_run

pytestmark = pytest.mark.usefixtures("micro")
SMALL = {
    "preset": "micro",
    "vocab_size": 400,
    "warmup_steps": 20,
    "batch_tokens": 1024,
    "max_length": 64,
    "learning_rate": 0.01,
}


@pytest.mark.long
def test_a_guided_head_learns_to_align():
    random = np.random.default_rng(0)
    source = random.integers(4, 20, (512, 6))
    labels = np.roll(source, 1, axis=0)[:, ::-1]  # Of another sentence: only links say anything.
    target = np.insert(labels[:, :-1], 0, 2, axis=1)
    inputs = {"source": source, "target": target}
    links = np.broadcast_to(np.eye(6, dtype=bool)[::-1], (512, 6, 6))
    model = Transformer(20, 1, 16, 2, 32, norm="rms", use_bias=False, alignment_head=(0, 0))

    def share_aligned():
        attention = np.asarray(model.attention(source, target))
        return (attention.argmax(axis=-1) == np.arange(6)[::-1]).mean()

    assert share_aligned() < 0.3
    compile_for_translation(model, warmup_steps=20, learning_rate=0.05)
    model.fit({**inputs, "alignment": links}, labels, batch_size=64, epochs=20, verbose=0)
    assert share_aligned() > 0.5


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("guided", [True, False])
def test_the_config_of_a_run_and_of_its_model_has_the_head(brief_corpus, tmp_path, guided):
    messages, run = [], tmp_path / "run"
    options = {**SMALL, "report": messages.append, "guided_alignment": guided}
    train(brief_corpus, "pt", "en", run, steps=1, **options)
    model = RunFolder(run).load_model()
    head = model.get_config()["alignment_head"]  # None if the mean of all aligns better.
    assert RunFolder(run).config.model_config["alignment_head"] == head
    assert any("aligns best" in message for message in messages) == (not guided)
    if guided:
        assert model.alignment_head == model.guided_head == (0, 0)
        average_run(run, tmp_path / "mean", last=1)
        assert RunFolder(tmp_path / "mean").load_model().alignment_head == (0, 0)


def test_batches_have_the_links_of_what_is_not_changed(tmp_path):
    sides = ["um dois três quatro", "dois um"], ["one two three four", "two one"]
    pairs = tf.data.Dataset.from_tensor_slices(sides)
    tokenizer = Tokenizer.train(sides[0] * 9 + sides[1] * 9, vocab_size=300)
    plain = Batches(pairs, tokenizer, augment="caps", seed=3)
    batches = Batches(pairs, tokenizer, augment="caps", seed=3)
    links = [np.array([[0, 1], [2, 0], [2, 1]]), np.array([[1, 1]])]
    batches = batches.with_links(Links(np.arange(2), links))
    seen = set()
    for number in range(10):
        for (inputs, labels), (before, _) in zip(
            batches.epoch(number), plain.epoch(number), strict=True
        ):
            np.testing.assert_array_equal(inputs["source"], before["source"])
            assert inputs["alignment"].shape == (*labels.shape, inputs["source"].shape[1])
            for row, target in zip(inputs["alignment"].numpy(), labels.numpy(), strict=True):
                pair = int(target[0] != batches.encoded.side(1, np.array([0]))[0][0])
                expected = {(i, j) for i, j in links[pair].tolist()}
                got = {(s, t) for t, s in np.argwhere(row).tolist()}
                assert got in (expected, set())
                seen.add((pair, bool(got)))
    assert seen == set(itertools.product((0, 1), (True, False)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subword_sampling": 1.0}, "guided_alignment does not go with subword_sampling"),
        ({"architecture": "recurrent", "preset": "tiny"}, "guided_alignment needs a Transformer"),
    ],
)
def test_what_cannot_be_guided_is_refused(corpus, tmp_path, options, message):
    options = {**SMALL, "guided_alignment": True, **options}
    with pytest.raises(ValueError, match=message):
        train(corpus, "pt", "en", tmp_path / "run", steps=2, **options)


def test_a_model_to_begin_from_that_has_no_head_to_teach_is_refused(corpus, tmp_path):
    base, messages, recurrent = RunFolder(tmp_path / "base"), [], Recurrent(9, 1, d_model=8)
    base.path.mkdir()
    base.save_model(recurrent, recurrent.get_weights())
    base.save_tokenizer(Tokenizer.train(["um dois"] * 9, vocab_size=270))
    options = {"init": base.path, "guided_alignment": True, "report": messages.append}
    with pytest.raises(
        ValueError, match=r"guided_alignment needs a Transformer\. Received: a Recurrent"
    ):
        train(corpus, "pt", "en", tmp_path / "run", **options)
    assert messages == ["training on the CPU"]  # Nothing was encoded.
