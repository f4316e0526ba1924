"""Attention that aligns: the links that a head is taught, or the head that has learned to."""

from collections.abc import Iterator, Sequence

import keras
import numpy as np

from keras_mt.alignment import Aligner, read_pharaoh
from keras_mt.data import Batches
from keras_mt.data.annotation import Annotator
from keras_mt.data.encoded import Links
from keras_mt.errors import InputError
from keras_mt.inference import best_head
from keras_mt.models import find_architecture
from keras_mt.models.seq2seq import clone
from keras_mt.text import BaseTokenizer
from keras_mt.text.words import words_of_pieces
from keras_mt.training.architecture import Run
from keras_mt.training.corpora import Validation

LEARNED = "learned"  # The value of `guided_alignment` that is no file.
_LEARN_PAIRS = 200_000  # That an aligner for guidance is learned from, at most.
_HEAD_PAIRS, _MEASURED = 20_000, 1000  # Those to learn, and to measure heads with.
_CHUNK = 8192


def check_guidance(run: Run) -> None:
    """Refuses a model without such a head, or a file that cannot be of the run's corpus."""
    options, path = run.options, run.options.guided_alignment
    if path is None and not options.terms:
        return
    architecture = find_architecture(options.architecture or "transformer")
    if options.init is None and not hasattr(architecture, "guided_head"):
        raise _not_a_transformer(run, architecture)
    if path in (None, LEARNED):
        return
    if run.pairs is not None or len(run.corpora) > 1 or run.options.clean:
        raise InputError(
            f"A file of guided_alignment ({path}) goes with one corpus, all of whose pairs are "
            f"trained on: give {LEARNED!r}, or leave out `pairs`, the other `data` and `clean`."
        )


def set_up_model(run: Run, model: keras.Model) -> None:
    """Sets the head to teach, unless the model has one, and that it learns to read terms."""
    options = run.options
    if options.guided_alignment is None and not options.terms:
        return
    if not hasattr(model, "guided_head"):
        raise _not_a_transformer(run, type(model))
    if options.guided_alignment is not None and model.alignment_head is None:
        model.alignment_head = model.guided_head
    if options.terms:
        model.reads_terms = True


def _not_a_transformer(run, architecture):
    name = "terms" if run.options.guided_alignment is None else "guided_alignment"
    return InputError(f"{name} needs a Transformer. Received: a {architecture.__name__}")


def guide(run: Run, batches: Batches, tokenizer: BaseTokenizer) -> None:
    """Gives the batches the links that a head is taught and that terms come from."""
    path, share = run.options.guided_alignment, run.options.terms
    if path is None and not share:
        return
    if share:
        batches.annotator = Annotator(tokenizer, share, run.options.seed)
    batches.guided = path is not None
    if path in (None, LEARNED):
        batches.links = Links(_aligned(_learned(batches, _LEARN_PAIRS), batches), run.temporary)
        count = f"learned from {min(len(batches.kept), _LEARN_PAIRS):,} pairs"
    else:
        found = list(_expanded(path, run, batches, tokenizer))
        batches.links = Links(found, run.temporary)
        count = f"from {path}, {sum(map(bool, map(len, found))):,} pairs with links"
    run.report(f"word alignments {count}")


def choose_head(
    run: Run,
    model: keras.Model,
    weights: Sequence[np.ndarray],
    batches: Batches,
    validation: Validation,
) -> tuple[int, int] | None:
    """The head that aligns best; None if the model has one, or the last layer's mean is better."""
    if getattr(model, "guided_head", None) is None or model.alignment_head is not None:
        return None
    measured = next(iter(validation.values()), batches)
    languages = measured.languages[0] if measured.languages else ()
    pairs = measured.pairs[0].take(_MEASURED)
    try:
        aligner = _learned(batches, _HEAD_PAIRS)
        model = clone(model)  # Without adapters.
        model.set_weights(weights)
        found = best_head(_MeanFirst(model), measured.tokenizer, pairs, aligner, languages)
        (layer, head), share = found
    except InputError as error:  # As of a corpus without links.
        run.report(f"no attention head is chosen to align: {error}")
        return None
    if layer == 0:
        run.report(f"attention: the mean of the last layer aligns best, {share:.1%} agreement")
        return None
    run.report(f"attention: head {head} of layer {layer - 1} aligns best, {share:.1%} agreement")
    return layer - 1, head


class _MeanFirst:
    """A model's cross-attentions, after the mean of the last one's heads as a layer of its own."""

    def __init__(self, model: keras.Model):
        self.max_length, self._model = model.max_length, model

    def attention_scores(self, source: np.ndarray, target: np.ndarray) -> dict:
        cross = self._model.attention_scores(source, target)["cross"]
        mean = np.mean(cross[-1], axis=1, keepdims=True)
        return {"cross": [np.broadcast_to(mean, cross[-1].shape), *cross]}


def _learned(batches, limit):
    """An aligner of the pairs that are trained on, of at most `limit` of them."""
    index = batches.kept
    if len(index) > limit:
        index = np.sort(np.random.default_rng(0).choice(index, limit, replace=False))
    return Aligner.learn(*(batches.encoded.side(side, index) for side in (0, 1)))


def _aligned(aligner, batches) -> Iterator[np.ndarray]:
    """The links of every encoded pair; of those that are left out none."""
    none, place = np.zeros((0, 2), np.int32), 0
    for start in range(0, len(batches.kept), _CHUNK):
        index = batches.kept[start : start + _CHUNK]
        links = aligner.align(*(batches.encoded.side(side, index) for side in (0, 1)))
        for i, found in zip(index.tolist(), links, strict=True):
            yield from (none for _ in range(place, i))
            yield found
            place = i + 1
    yield from (none for _ in range(place, len(batches.encoded)))


def _expanded(path, run, batches, tokenizer) -> Iterator[np.ndarray]:
    """The links of pieces, each of a word with each of another, from a file of those of words."""
    pairs = [tuple(t.decode() for t in p) for p in batches.pairs[0].as_numpy_iterator()]
    lines = read_pharaoh(path, [[len(side.split()) for side in pair] for pair in pairs])
    index, kept = np.arange(len(pairs)), set(batches.kept.tolist())
    sides = zip(*(batches.encoded.side(side, index) for side in (0, 1)), strict=True)
    for i, (pair, ids, links) in enumerate(zip(pairs, sides, lines, strict=True)):
        words = [
            words_of_pieces(text.split(), _strings(tokenizer, own, target))
            for text, own, target in zip(pair, ids, (False, True), strict=True)
        ]
        if i not in kept:
            yield np.zeros((0, 2), np.int32)
            continue
        linked = np.zeros([max(each.max() + 1, 1) for each in words], bool)
        linked[links[:, 0], links[:, 1]] = True
        source, target = words
        yield np.argwhere(linked[source][:, target] & (source >= 0)[:, None] & (target >= 0))


def _strings(tokenizer, ids, target):
    strings = tokenizer.id_to_string if target else tokenizer.source_id_to_string
    return [piece.decode() for piece in strings(ids).numpy()]
