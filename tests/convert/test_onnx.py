"""Models as ONNX files: a search over them, in onnxruntime and NumPy, finds what ours finds."""

import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from command import keras_mt
from conftest import needed
from small import small

from keras_mt import Translator
from keras_mt.convert.onnx import _converted, special_ids, to_onnx
from keras_mt.data import phrasebook
from keras_mt.models import ARCHITECTURES

pytestmark = pytest.mark.long

onnxruntime = needed("onnxruntime")


@pytest.fixture(scope="module")
def sources():
    return list(dict.fromkeys(pair[0] for pair in phrasebook.pairs("test")))[:60]


class Files:
    """What a program does with the files."""

    def __init__(self, folder):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(folder / f"{name}.onnx", options)
            for name in ("encoder", "decoder")
        )
        self.ids = json.loads((folder / "ids.json").read_text())

    def source(self, pieces):
        ids = self.ids
        rows = [[*ids["before_source"], *row, *ids["after_source"]] for row in pieces]
        padded = np.full((len(rows), max(map(len, rows))), ids["padding"], np.int32)
        for padded_row, row in zip(padded, rows, strict=True):
            padded_row[: len(row)] = row
        return padded

    def start(self, source, beams):
        inputs = {"source": source, "beams": np.array(beams, np.int32)}
        names = [output.name for output in self.encoder.get_outputs()]
        return dict(zip(names, self.encoder.run(None, inputs), strict=True))

    def step(self, tokens, position, mask, parents, cache):
        """Logits; changes the cache."""
        inputs = {
            "tokens": tokens.astype(np.int32),
            "position": np.array(position, np.int32),
            "mask": mask,
            "parents": parents.astype(np.int32),
        }
        names = [output.name for output in self.decoder.get_outputs()]
        outputs = dict(zip(names, self.decoder.run(None, {**inputs, **cache}), strict=True))
        logits = outputs.pop("logits")
        cache |= {name.removeprefix("next."): x for name, x in outputs.items()}
        return logits


def greedy(files, pieces):
    """The most probable token at each step, all rows together."""
    ids, rows = files.ids, len(pieces)
    longest = np.minimum([2 * len(row) + 10 for row in pieces], ids["max_length"])
    cache, found = files.start(files.source(pieces), 1), np.zeros((rows, 0), np.int32)
    tokens, parents = np.full((rows, 1), ids["start"]), np.zeros((rows, 1))
    for position in range(longest.max()):
        mask = np.ones((rows, 1, position + 1), bool)
        logits = files.step(tokens, position, mask, parents, cache)
        logits[..., ids["forbidden"]] = -np.inf
        tokens = logits.argmax(axis=-1)
        found = np.concatenate([found, tokens], axis=1)
    found = [row[:length].tolist() for row, length in zip(found, longest, strict=True)]
    end = ids["end"]
    return [row[: row.index(end) + 1] if end in row else row for row in found]


def beam_search(files, pieces, beams):
    """A search for one source that ends when so many hypotheses have ended."""
    ids = files.ids
    cache = files.start(files.source([pieces]), beams)
    log_probs = np.where(np.arange(beams) == 0, 0.0, -1e9)
    tokens, own, parents = np.zeros((beams, 0), int), np.zeros((beams, 0), int), np.arange(beams)
    ended = []
    for position in range(min(2 * len(pieces) + 10, ids["max_length"])):
        own = np.concatenate([own, np.arange(beams)[:, None]], axis=1)
        mask = own[:, :, None] == np.arange(beams)  # [beams, position + 1, beams]
        last = tokens[:, -1] if position else np.full(beams, ids["start"])
        logits = files.step(last[None], position, mask.reshape(1, beams, -1), parents[None], cache)[
            0
        ].astype(float)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        logits[:, ids["forbidden"]] = -np.inf
        scores = logits + log_probs[:, None]
        best = np.argsort(-scores, axis=None, kind="stable")[: 2 * beams]
        from_beam, token = np.unravel_index(best, scores.shape)
        ends = token == ids["end"]
        for i in np.flatnonzero(ends[:beams]):
            found = [*tokens[from_beam[i]], token[i]]
            ended.append((scores.flat[best[i]] / len(found), found))
        if len(ended) >= beams:
            break
        living = np.flatnonzero(~ends)[:beams]
        parents, log_probs = from_beam[living], scores.flat[best[living]]
        tokens = np.concatenate([tokens[parents], token[living, None]], axis=1)
        own = own[parents]
    return [int(i) for i in max(ended, key=lambda scored: scored[0])[1]]


def texts(tokenizer, ids):
    return [t.decode() for t in tokenizer.text(tf.ragged.constant(ids, dtype=tf.int32)).numpy()]


def test_a_search_over_them_finds_what_ours_finds(eager, load, run_dir, sources, tmp_path):
    sources = sources[:6]
    keras_mt("export", run_dir, tmp_path / "onnx", "--format", "onnx")
    files = Files(tmp_path / "onnx")
    ours = load(beam_size=1, early_stopping=True, split_sentences=False)
    tokenizer = ours.tokenizer
    pieces = tokenizer.pieces(tf.constant(sources)).to_list()
    assert texts(tokenizer, greedy(files, pieces)) == ours(sources)
    ours = load(beam_size=4, early_stopping=True)
    found = [beam_search(files, row, 4) for row in pieces]
    assert texts(tokenizer, found) == ours(sources)
    assert (tmp_path / "onnx" / "tokenizer.model").read_bytes() == tokenizer.model


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_hypotheses_that_change_places_have_the_logits_of_whole_sequences(name, load, tmp_path):
    tokenizer = load().tokenizer
    model, random = small(name, tokenizer), np.random.default_rng(2)
    to_onnx(Translator(model, tokenizer), tmp_path / "onnx")
    files, beams, steps = Files(tmp_path / "onnx"), 3, 5
    pieces = [random.integers(4, 99, length).tolist() for length in (7, 3)]
    source = files.source(pieces)
    cache = files.start(source, beams)
    parents = np.tile(np.arange(beams), (2, 1))
    own = np.zeros((2, beams, 0), int)
    tokens = np.full((2, beams, 1), files.ids["start"])
    for position in range(steps):
        own = np.concatenate([own, np.tile(np.arange(beams), (2, 1))[..., None]], axis=2)
        mask = (own[..., None] == np.arange(beams)).reshape(2, beams, -1)
        logits = files.step(tokens[..., -1], position, mask, parents, cache)
        for beam in range(beams):
            expected = model({"source": source, "target": tokens[:, beam]})[:, -1]
            np.testing.assert_allclose(logits[:, beam], expected, atol=1e-4)
        parents = random.integers(0, beams, (2, beams))
        tokens, own = (np.take_along_axis(x, parents[..., None], axis=1) for x in (tokens, own))
        tokens = np.concatenate([tokens, random.integers(4, 99, (2, beams, 1))], axis=2)


def test_what_the_ids_mean(golden, load):
    """Of transformers' tokenizer: the source's language and its end, and the target's language."""
    from keras_mt.convert import from_huggingface

    assert special_ids(load()) == {
        "padding": 0, "start": 2, "end": 3, "forbidden": [0, 1, 2],
        "before_source": [], "after_source": [3], "forced": [], "max_length": 64,
    }  # fmt: skip
    languages = {"source_language": "pt", "target_language": "en"}
    translator = from_huggingface(golden / "m2m_100").with_options(**languages)
    table = json.loads((golden / "m2m_100" / "vocab.json").read_text())
    ids = special_ids(translator)
    assert ids["start"] == ids["end"] == table["</s>"]


def test_what_onnx_has_not_is_refused(load, monkeypatch, tmp_path):
    translator, folder = load(), tmp_path / "onnx"
    with pytest.raises(ValueError, match="ONNX takes one model, no ensemble: 2"):
        to_onnx(Translator(translator.models * 2, translator.tokenizer), folder)
    with pytest.raises(FileExistsError, match="is not overwritten"):
        to_onnx(translator, tmp_path)
    function = tf.function(
        lambda x: {"y": keras.ops.erfinv(x)}, input_signature=[tf.TensorSpec([None], name="x")]
    )
    with pytest.raises(ValueError, match="none of the operations Erfinv, which the model's step"):
        _converted("step", function)
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'keras_mt\[onnx\]'"):
        to_onnx(translator, folder)
    assert not list(tmp_path.iterdir())
