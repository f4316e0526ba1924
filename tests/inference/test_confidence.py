import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from command import keras_mt
from conftest import ROOT
from letters import Letters, Marked
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_mt import ExportedTranslator, Translator
from keras_mt.inference.confidence import repeats
from keras_mt.models import Seq2Seq

pytestmark = pytest.mark.long


def repeats_by_hand(ids):
    """Whether some sequence stands often enough in a row."""
    for period in range(1, 17):
        times = {1: 4, 2: 3, 3: 3}.get(period, 2)
        for start in range(len(ids) - times * period + 1):
            part = ids[start : start + period]
            if ids[start : start + times * period] == part * times:
                return True
    return False


def test_repetition_is_found_wherever_it_stands():
    draw = np.random.default_rng(0)
    rows = [draw.integers(0, size, draw.integers(0, 40)).tolist() for size in [2, 3, 4, 9] * 60]
    rows += [row + row[:5] * 2 for row in rows[::7]]  # A longer sequence twice.
    lengths = [len(row) for row in rows]
    ids = tf.RaggedTensor.from_row_lengths([x for row in rows for x in row], lengths)
    found = repeats(ids).numpy().tolist()
    assert found == [repeats_by_hand(row) for row in rows]
    assert 60 < sum(found) < 200


class Bigrams(Seq2Seq, keras.Model):
    """After each letter the same ones are likely, whatever the source."""

    source_vocab_size = target_vocab_size = 6
    padding_id = 5
    max_length = 16

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        likely = {(5, 1): 9.0, (1, 2): 9.0, (2, 1): 9.0, (2, 0): 6.0}  # "ababab", or an end after b
        self.table = np.zeros((6, 6), "float32")
        for pair, logit in likely.items():
            self.table[pair] = logit

    def call(self, inputs):
        return tf.gather(self.table, inputs["target"])

    def start_decoding(self, source, beams=1):
        return {"source": source}

    def decode_step(self, tokens, position, cache, mask=None):
        return tf.gather(self.table, tokens), cache


@pytest.fixture
def looping(eager):
    return Translator(Bigrams(), Letters(), beam_size=1)


def test_a_confidence_is_of_the_tokens_scores(looping):
    translator = looping.with_options(beam_size=2, n_best=2, max_length=5)
    texts = ["bad", "ab\ncd", ""]
    found = translator.hypotheses(texts, token_scores=True, confidence=True)
    plain = translator.hypotheses(texts, token_scores=True)
    for hypotheses, others in zip(found[:2], plain, strict=False):
        for hypothesis, other in zip(hypotheses, others, strict=True):
            assert hypothesis[:2] == other[:2]
            pieces, log_probs = zip(*other.tokens, strict=True)
            assert hypothesis.mean_log_prob == pytest.approx(np.mean(log_probs), abs=1e-5)
            assert hypothesis.worst_token == (pieces[np.argmin(log_probs)], min(log_probs))
    assert found[2][0] == ("", 0.0, [], 0.0, None, (), ())


def test_doubts_are_loops_and_lengths_that_do_not_go_with_the_source(looping):
    texts = ["abc", "cccc", "abcdba", "cdcdcd", "a"]
    assert [repeats_by_hand(text) for text in texts] == [False, True, False, True, False]
    found = [found[0] for found in looping.hypotheses(texts, confidence=True)]
    # As many letters as may be; a source that repeats itself excuses a loop.
    assert [len(h.text) for h in found] == [16, 16, 16, 16, 12]
    assert [h.warnings for h in found] == [
        ("loop", "length"), ("length",), ("loop",), (), ("loop", "length"),
    ]  # fmt: skip
    log_probs = tf.nn.log_softmax(looping.models[0].table).numpy()
    path = [(5, 1), *[(1, 2), (2, 1)] * 7, (1, 2)]
    expected = [log_probs[pair] for pair in path]
    assert found[0].mean_log_prob == pytest.approx(np.mean(expected), abs=1e-5)
    piece, log_prob = found[0].worst_token
    assert (piece, log_prob) == ("a", pytest.approx(min(expected)))
    # Each sentence by itself.
    both = looping.hypotheses(["abc\ncccc"], confidence=True)[0][0]
    assert both.warnings == ("loop", "length") and both.text == f"{found[0].text}\n{found[1].text}"


def test_a_forced_token_is_no_doubt(eager):
    forced = Translator(Bigrams(), Marked(), beam_size=1, max_length=5)
    (found,) = forced.hypotheses(["bcd"], confidence=True)[0]
    assert found.text == "babab"
    table = tf.nn.log_softmax(forced.models[0].table).numpy()
    expected = [table[pair] for pair in [(2, 1), (1, 2), (2, 1), (1, 2)]]
    assert found.mean_log_prob == pytest.approx(np.mean(expected), abs=1e-5)
    assert found.worst_token[0] == "a"  # And not "b", which is unlikely after the start.


def test_the_command_writes_warnings_as_json(looping, monkeypatch):
    monkeypatch.setattr("keras_mt.cli.translate.load_translator", lambda *_: looping)
    result = keras_mt("translate", ROOT, "--json", stdin=b"abc\ncccc\n\n")
    rows = [json.loads(line)["translations"][0] for line in result.stdout.splitlines()]
    assert [row["warnings"] for row in rows] == [["loop", "length"], ["length"], []]
    assert [*rows[0]] == ["text", "score", "mean_log_prob", "worst_token", "warnings"]


def test_a_loop_goes_where_no_sequence_may_repeat(looping):
    again = looping.with_options(no_repeat_ngram_size=3)
    (found,) = again.hypotheses(["abc"], confidence=True)[0]
    assert found.text == "abab" and found.warnings == ()


def test_other_options_leave_the_rest_as_it_is(looping):
    options = {"beam_size": 2, "max_length": 7, "split_sentences": False}
    one = Translator(looping.models, looping.tokenizer, **options)
    other = one.with_options(no_repeat_ngram_size=3)
    assert other.options == dataclasses.replace(one.options, no_repeat_ngram_size=3)
    assert other.models == one.models


def test_an_export_gives_a_confidence_where_it_was_asked_for(looping, tmp_path):
    translator = looping.with_options(beam_size=2, n_best=2)
    translator.export(tmp_path / "1", signatures=["serving_default", "confidence"])
    reader = ExportedTranslator(tmp_path / "1")
    texts = ["abc", "cccc\ncdcdcd", ""]
    expected = translator.hypotheses(texts, confidence=True)
    found = reader.hypotheses(texts, confidence=True)
    for hypotheses, others in zip(found, expected, strict=True):
        for one, other in zip(hypotheses, others, strict=True):
            assert (one.text, one.warnings) == (other.text, other.warnings)
            assert one.mean_log_prob == pytest.approx(other.mean_log_prob, abs=1e-4)
            if other.worst_token:
                assert one.worst_token[0] == other.worst_token[0]
                assert one.worst_token[1] == pytest.approx(other.worst_token[1], abs=1e-3)
    (meta_graph,) = SavedModel.FromString(
        (tmp_path / "1" / "saved_model.pb").read_bytes()
    ).meta_graphs
    outputs = {
        name: (tf.as_dtype(x.dtype).name, tf.TensorShape(x.tensor_shape).as_list())
        for name, x in meta_graph.signature_def["confidence"].outputs.items()
    }
    assert outputs == {
        "translations": ("string", [None, 2]),
        "scores": ("float32", [None, 2]),
        "mean_log_probs": ("float32", [None, 2]),
        "worst_log_probs": ("float32", [None, 2]),
        "worst_tokens": ("string", [None, 2]),
        "loops": ("bool", [None, 2]),
        "length_mismatch": ("bool", [None, 2]),
    }
    assert reader._engine.run("serving_default", True, text=[])["loops"].shape == (0, 2)
    assert reader.supports_confidence
    reader.supports_confidence = False
    with pytest.raises(ValueError, match="export --signatures serving_default,confidence"):
        reader.hypotheses(["Oi!"], confidence=True)
