"""Guided alignment, and the head that is chosen where none is guided."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Tokenizer, Transformer
from keras_mt.alignment import Aligner, write_pharaoh
from keras_mt.data import Batches, load_corpus
from keras_mt.data.encoded import Links
from keras_mt.inference import best_head
from keras_mt.run_folder import RunFolder
from keras_mt.training import average_run, train

pytestmark = pytest.mark.usefixtures("micro")
SMALL = {
    "preset": "micro",
    "vocab_size": 400,
    "warmup_steps": 20,
    "batch_tokens": 1024,
    "max_length": 64,
    "learning_rate": 0.01,
}


def agreement(folder, corpus, head):
    """The share of links that a head agrees with, of the pairs of the validation split."""
    model, tokenizer = RunFolder(folder).load_model(), RunFolder(folder).load_tokenizer()
    batches = Batches(load_corpus(corpus, "pt", "en", "train"), tokenizer)
    aligner = Aligner.learn(*(batches.encoded.side(i, batches.kept) for i in (0, 1)))
    scores = model.attention_scores
    model.attention_scores = lambda *inputs: {
        "cross": [scores(*inputs)["cross"][head[0]][:, head[1] : head[1] + 1]]
    }
    return best_head(model, tokenizer, load_corpus(corpus, "pt", "en", "validation"), aligner)[1]


def test_a_guided_head_agrees_with_the_aligner_far_more_than_others_do(corpus, tmp_path):
    found = {}
    for name, guided in (("guided", "learned"), ("plain", None)):
        folder = train(
            corpus, "pt", "en", tmp_path / name, steps=120, guided_alignment=guided, **SMALL
        )
        head = RunFolder(folder).load_model().alignment_head
        assert RunFolder(folder).config.model["alignment_head"] == list(head)
        found[name] = agreement(folder, corpus, head)
        if guided:
            assert head == Transformer.from_config(RunFolder(folder).config.model).guided_head
    assert found["guided"] > 0.6 and found["guided"] > found["plain"] + 0.2, found
    average_run(tmp_path / "plain", tmp_path / "mean", last=1)
    plain, mean = (RunFolder(tmp_path / name).load_model() for name in ("plain", "mean"))
    assert mean.alignment_head == plain.alignment_head


def test_a_guided_run_that_goes_on_ends_where_an_unbroken_one_does(corpus, tmp_path):
    options = {**SMALL, "guided_alignment": "learned", "gradient_accumulation_steps": 2}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(corpus, "pt", "en", whole, steps=7, **options)
    for steps in (3, 7):
        train(corpus, "pt", "en", broken, steps=steps, **options)
    one, other = (RunFolder(each).load_model().get_weights() for each in (whole, broken))
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)


def test_batches_have_the_links_of_what_is_not_changed(tmp_path):
    sides = ["um dois três quatro", "dois um"], ["one two three four", "two one"]
    pairs = tf.data.Dataset.from_tensor_slices(sides)
    tokenizer = Tokenizer.train(sides[0] * 9 + sides[1] * 9, vocab_size=100)
    plain = Batches(pairs, tokenizer, augment="caps", seed=3)
    batches = Batches(pairs, tokenizer, augment="caps", seed=3)
    links = [np.array([[0, 1], [2, 0], [2, 1]]), np.array([[1, 1]])]
    batches.links = Links(links)
    assert len(batches.links) == 2
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


def test_a_file_of_links_of_words_teaches_those_of_their_pieces(corpus, tmp_path):
    pairs = list(load_corpus(corpus, "pt", "en", "train").as_numpy_iterator())
    path, messages = tmp_path / "links.txt", []
    write_pharaoh(path, [[[0, 0]] for _ in pairs])
    options = {**SMALL, "guided_alignment": path, "report": messages.append}
    train(corpus, "pt", "en", tmp_path / "run", steps=2, **options)
    assert any("300 pairs with links" in message for message in messages)
    write_pharaoh(path, [[[0, 0]]])
    with pytest.raises(ValueError, match="300 lines"):
        train(corpus, "pt", "en", tmp_path / "other", steps=2, **options)
    with pytest.raises(ValueError, match="goes with one corpus"):
        train([corpus, corpus], "pt", "en", tmp_path / "other", steps=2, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subword_sampling": 1.0}, "guided_alignment does not go with subword_sampling"),
        ({"architecture": "recurrent", "preset": "tiny"}, "guided_alignment needs a Transformer"),
    ],
)
def test_what_cannot_be_guided_is_refused(corpus, tmp_path, options, message):
    options = {**SMALL, "guided_alignment": "learned", **options}
    with pytest.raises(ValueError, match=message):
        train(corpus, "pt", "en", tmp_path / "run", steps=2, **options)
