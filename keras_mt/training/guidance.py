"""Attention that aligns: the links that a head is taught, or the head that has learned to."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_mt.alignment import Aligner
from keras_mt.data import Batches
from keras_mt.data.annotation import Annotator
from keras_mt.data.encoded import Links
from keras_mt.errors import InputError
from keras_mt.inference import best_head
from keras_mt.models.seq2seq import clone
from keras_mt.options import TrainingOptions
from keras_mt.training.distribution import Worker

_LEARN_PAIRS = 200_000  # That an aligner for guidance is learned from, at most.
_HEAD_PAIRS, _MEASURED = 20_000, 1000  # Those to learn, and to measure heads with.
_CHUNK = 8192


def set_up_model(options: TrainingOptions, model: keras.Model) -> None:
    """Sets the head to teach, unless the model has one, and that it learns to read terms."""
    if options.needs_links and not hasattr(model, "guided_head"):
        name = "guided_alignment" if options.guided_alignment else "terms"
        raise InputError(f"{name} needs a Transformer. Received: a {type(model).__name__}")
    if options.guided_alignment and model.alignment_head is None:
        model.alignment_head = model.guided_head
    if options.terms:
        model.reads_terms = True


def with_links(batches: Batches, options: TrainingOptions, worker: Worker) -> Batches:
    """The batches with the links that a head is taught and that terms come from."""
    if not options.needs_links:
        return batches
    tokenizer, share, seed = batches.tokenizer, options.terms, options.seed
    annotator = Annotator(tokenizer, share, seed) if share else None
    found = _aligned(_learned(batches, _LEARN_PAIRS), batches)
    links = Links(batches.kept, found, worker.temporary)
    worker.report(f"word alignments learned: {links.linked:,} pairs with links")
    return batches.with_links(links, guided=bool(options.guided_alignment), annotator=annotator)


def choose_head(
    model: keras.Model,
    weights: Sequence[np.ndarray],
    batches: Batches,
    validation: Batches | None,
    report: Callable[[str], Any],
) -> tuple[int, int] | None:
    """The head that aligns best.

    None if the model has one or can have none, and if the mean of the last layer aligns better.
    """
    if getattr(model, "guided_head", None) is None or model.alignment_head is not None:
        return None
    measured = validation or batches
    languages = measured.languages[0] if measured.languages else ()
    pairs = measured.pairs[0].take(_MEASURED)
    try:
        aligner = _learned(batches, _HEAD_PAIRS)
        model = clone(model)  # Without adapters.
        model.set_weights(weights)
        head, share = best_head(model, measured.tokenizer, pairs, aligner, languages)
    except InputError as error:  # As of a corpus without links.
        report(f"no attention head is chosen to align: {error}")
        return None
    name = "the mean of the last layer" if head is None else f"head {head[1]} of layer {head[0]}"
    report(f"attention: {name} aligns best, {share:.1%} agreement")
    return head


def _learned(batches, limit):
    """An aligner of the pairs that are trained on, of at most `limit` of them."""
    index = batches.kept
    if len(index) > limit:
        index = np.sort(np.random.default_rng(0).choice(index, limit, replace=False))
    return Aligner.learn(*(batches.encoded.side(side, index) for side in (0, 1)))


def _aligned(aligner, batches):
    """The links of the pairs that are trained on."""
    for index in np.split(batches.kept, range(_CHUNK, len(batches.kept), _CHUNK)):
        yield from aligner.align(*(batches.encoded.side(side, index) for side in (0, 1)))
