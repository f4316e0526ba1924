"""The attention head that aligns best as a word aligner does."""

import functools
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_mt.alignment import Aligner
from keras_mt.data.encoded import EncodedPairs
from keras_mt.errors import InputError
from keras_mt.models import Seq2Seq
from keras_mt.text import BaseTokenizer

_BATCH = 32


def best_head(
    model: Seq2Seq,
    tokenizer: BaseTokenizer,
    pairs: tf.data.Dataset,
    aligner: Aligner,
    languages: Sequence[str] = (),
) -> tuple[tuple[int, int] | None, float]:
    """The cross-attention head, a layer and a number from 0, that agrees best with a word aligner.

    None if no head agrees better than the mean of the last layer's. The agreement, returned too,
    is the share of the target tokens with a link whose greatest attention is on a source token that
    they are linked to; the source's end does not count. Some hundred pairs are enough. The model
    is a Transformer, or another with `attention_scores`.
    """
    encoded = EncodedPairs([pairs], tokenizer, languages=[languages])
    # Pairs of similar lengths share a batch.
    order = np.argsort(encoded.lengths[:, :2].sum(axis=1), kind="stable")
    order = order[encoded.lengths[order, :2].max(axis=1) <= model.max_length]
    pad = functools.partial(keras.utils.pad_sequences, padding="post", value=tokenizer.padding_id)
    right, total = 0, 0
    for start in range(0, len(order), _BATCH):
        sources, targets = (encoded.side(side, order[start : start + _BATCH]) for side in (0, 1))
        links = aligner.align(sources, targets)
        inputs = [np.concatenate([[tokenizer.bos_id], target[:-1]]) for target in targets]
        scores = model.attention_scores(pad(sources), pad(inputs))["cross"]
        scores = np.stack([np.asarray(layer) for layer in scores])
        mean = np.broadcast_to(scores[-1:].mean(axis=2, keepdims=True), scores[-1:].shape)
        scores = np.concatenate([mean, scores])
        for i, (pair, source, target) in enumerate(zip(links, sources, targets, strict=True)):
            own = scores[:, i, :, : len(target), : len(source)]
            best = np.where(source == tokenizer.eos_id, -1.0, own).argmax(axis=-1)
            is_link = np.zeros((len(target), len(source)), bool)
            is_link[pair[:, 1], pair[:, 0]] = source[pair[:, 0]] != tokenizer.eos_id
            right = right + is_link[np.arange(len(target)), best].sum(axis=-1)
            total += is_link.any(axis=1).sum()
    if not total:
        raise InputError("best_head needs pairs in which the aligner finds links.")
    layer, head = np.unravel_index(np.argmax(right), right.shape)
    found = (int(layer) - 1, int(head)) if layer else None
    return found, float(right[layer, head] / total)
