import numpy as np
import pytest
import tensorflow as tf

from keras_mt.alignment import Aligner
from keras_mt.data.encoded import EncodedPairs
from keras_mt.inference import best_head


def test_the_best_head_is_that_of_the_formula(load, corpus):
    from keras_mt.data import load_corpus

    translator = load()
    model, tokenizer = translator.models[0], translator.tokenizer
    pairs = load_corpus(corpus, "pt", "en", "test").take(8)
    encoded = EncodedPairs([pairs], tokenizer)
    sources, targets = (encoded.side(side, np.arange(len(encoded))) for side in (0, 1))
    aligner = Aligner.learn(sources, targets)
    right, total = 0, 0
    for source, target, links in zip(
        sources, targets, aligner.align(sources, targets), strict=True
    ):
        inputs = np.concatenate([[tokenizer.bos_id], target[:-1]])
        layers = [
            np.array(x[0]) for x in model.attention_scores(source[None], inputs[None])["cross"]
        ]
        mean = np.repeat(layers[-1].mean(axis=0, keepdims=True), len(layers[-1]), axis=0)
        scores = np.stack([*layers, mean])[..., :-1]  # Not on the end.
        own = [(i, j) for i, j in links.tolist() if i < len(source) - 1]
        for j in {j for _, j in own}:
            best = scores[:, :, j].argmax(axis=-1)
            right = right + np.isin(best, [i for i, other in own if other == j])
            total += 1
    head, agreement = best_head(model, tokenizer, pairs, aligner)
    assert agreement == pytest.approx(right.max() / total) and agreement > 0.2
    assert right[head or (-1, 0)] == right.max()


def test_what_has_no_heads_or_no_links_is_refused(load, corpus):
    translator = load()
    pairs = tf.data.Dataset.from_tensors((["O livro."], ["The book."])).unbatch()
    aligner = Aligner.learn([[0]], [[0]])
    with pytest.raises(ValueError, match="finds links"):
        best_head(translator.models[0], translator.tokenizer, pairs.take(0), aligner)
