"""What the graph says of a search's hypotheses and of given translations, piece by piece."""

import numpy as np
import pytest
import tensorflow as tf

from keras_mt.inference import Predictor
from keras_mt.models import DecoderOnly, Transformer, ensure_built

pytestmark = pytest.mark.usefixtures("eager")
LONG = "palavra " * 40  # Cut into several segments.


@pytest.fixture
def graph(load):
    translator = load(beam_size=2, n_best=2, max_length=5)
    return translator.graph(Predictor(translator.models))


def run(function, *columns, **flags):
    outputs = function(*(tf.constant(column) for column in columns), **flags)
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def blocks(predictor, tokenizer, source, target):
    """The attention of each segment alone; both sides are pieces in which each has its end."""
    rows = []
    for side in (source, target):
        pieces = tokenizer.id_to_string(tf.range(tokenizer.vocab_size)).numpy().tolist()
        ids = [pieces.index(piece) for piece in side]
        ends = np.flatnonzero(np.array(ids) == tokenizer.eos_id)
        rows.append(np.split(np.array(ids), ends[:-1] + 1))
    assert len(rows[0]) == len(rows[1])
    return [
        predictor.attention(own[None], np.array([[tokenizer.bos_id, *aligned[:-1]]]))[0]
        for own, aligned in zip(*rows, strict=True)
    ]


def test_attention_is_that_of_each_segment_alone(graph, sources):
    texts = [f"{sources[0]} {sources[1]}\n\n{sources[2]}", "", LONG]
    found = run(graph.align, texts, [""] * 3)
    assert found["attention"].shape[:2] == (3, 2)
    assert found["source_tokens"][2, 1].tolist().count(b"</s>") > 1
    del found["refused"]
    found = {name: x[:, 1] for name, x in found.items()}  # Of the second-best.
    for i, translation in enumerate(found["translations"]):
        source = found["source_tokens"][i][: found["source_lengths"][i]].tolist()
        length = found["target_lengths"][i]
        if not length:
            assert not any(source) and not translation
            continue
        target = found["target_tokens"][i][:length].tolist()
        words = b"".join(piece for piece in target if piece != b"</s>")
        words = words.decode().replace("▁", " ")
        assert "".join(words.split()) == "".join(translation.decode().split())
        own = blocks(graph.predictor, graph.tokenizer, source, target)
        row = column = 0
        attention = found["attention"][i].copy()
        for block in own:
            rows, columns = row + block.shape[0], column + block.shape[1]
            part = attention[row:rows, column:columns]
            np.testing.assert_allclose(part, block, atol=1e-5)
            part[:] = 0
            row, column = rows, columns
        assert (row, column) == (length, len(source)) and not attention.any()


def test_what_is_aligned_is_what_is_translated(graph, sources):
    flags = {"token_scores": True, "confidence": True}
    prefixes = ["The", ""]
    plain = run(graph.translate, sources[:2], prefixes, **flags)
    aligned = run(graph.align, sources[:2], [""] * 2, prefixes, **flags)
    assert {"mean_log_probs", "loops", "tokens", "log_probs", "refused"} < plain.keys()
    for name, expected in plain.items():
        np.testing.assert_array_equal(aligned[name], expected)


def test_scores_are_the_searchs_own(load, sources):
    translator = load()
    graph = translator.graph(Predictor(translator.models))
    text = f"{sources[0]} {sources[1]}\n{sources[2]}"
    found = run(graph.translate, [text], token_scores=True)
    translation, length = found["translations"][0, 0], found["lengths"][0, 0]
    scored = run(graph.score, [text], [translation])
    assert scored["tokens"][0].tolist() == found["tokens"][0, 0][:length].tolist()
    np.testing.assert_allclose(scored["log_probs"][0], found["log_probs"][0, 0][:length], atol=1e-4)


@pytest.mark.parametrize("name", ["score", "align"])
def test_sentences_go_apart_where_a_line_has_as_many(load, sources, name):
    targets = ["The book is here.", "She has a dog!"]
    pairs = [
        (" ".join(sources[:2]), " ".join(targets)),
        ("\n".join(sources[:2]), "\n".join(targets)),
        (" ".join(sources[:2]), "The book is here"),
    ]
    for split, ends in ((True, [2, 2, 1]), (False, [1, 2, 1])):
        translator = load(split_sentences=split)
        graph = translator.graph(Predictor(translator.models))
        found = run(getattr(graph, name), *(list(side) for side in zip(*pairs, strict=True)))
        tokens = found["tokens"] if name == "score" else found["target_tokens"][:, 0]
        assert [row.tolist().count(b"</s>") for row in tokens] == ends
        if split:
            (part,) = {"log_probs", "attention"} & found.keys()
            np.testing.assert_allclose(found[part][0], found[part][1], atol=1e-5)


def test_attention_is_the_mean_over_the_models_that_have_one():
    sizes = {"vocab_size": 20, "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 32}
    source, target = tf.constant([[5, 3, 7, 3]]), tf.constant([[2, 5, 11, 6]])
    models = [Transformer(**sizes, alignment_head=(0, 1)), Transformer(**sizes)]
    other = ensure_built(DecoderOnly(**sizes))
    expected = np.mean([model.attention(source, target) for model in models], axis=0)
    every = Predictor([*models, other])
    for predictor in (every, every.with_constant_vectors()):
        np.testing.assert_allclose(predictor.attention(source, target), expected, atol=1e-5)
    assert Predictor([other]).attention(source, target) is None
    assert Predictor(models[:1]).trusted_attention
    assert not Predictor(models).trusted_attention
    assert not Predictor([other]).trusted_attention
