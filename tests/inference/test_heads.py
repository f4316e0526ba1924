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
    pairs = load_corpus(corpus, "pt", "en", "test")
    encoded = EncodedPairs([pairs], tokenizer)
    sources, targets = (encoded.side(side, np.arange(len(encoded))) for side in (0, 1))
    aligner = Aligner.learn(sources, targets)
    right, total = 0, 0
    for source, target, links in zip(
        sources, targets, aligner.align(sources, targets), strict=True
    ):
        inputs = np.concatenate([[tokenizer.bos_id], target[:-1]])
        layers = model.attention_scores(source[None], inputs[None])["cross"]
        scores = np.stack([np.array(layer[0]) for layer in layers])[..., :-1]  # Not on the end.
        own = [(i, j) for i, j in links.tolist() if i < len(source) - 1]
        for j in {j for _, j in own}:
            best = scores[:, :, j].argmax(axis=-1)
            right = right + np.isin(best, [i for i, other in own if other == j])
            total += 1
    (layer, head), agreement = best_head(model, tokenizer, pairs, aligner)
    assert agreement == pytest.approx(right.max() / total) and agreement > 0.2
    assert right[layer, head] == right.max()


def test_what_has_no_heads_or_no_links_is_refused(load, corpus):
    translator = load()
    pairs = tf.data.Dataset.from_tensors((["O livro."], ["The book."])).unbatch()
    aligner = Aligner.learn([[0]], [[0]])
    with pytest.raises(ValueError, match="finds links"):
        best_head(translator.models[0], translator.tokenizer, pairs.take(0), aligner)
