"""Lists of texts of any length: checked, and run in batches."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError

# The maximum texts of a batch, and bytes: those of its longest text times their number.
_BATCH_TEXTS = 256
_BATCH_BYTES = 64 * 512
_LEAST_BATCH = 32  # The minimum texts of a batch when several run side by side.
_LONG_LIST = 1024  # Texts for which a notebook shows a progress bar.


def run_in_batches(
    function: Callable[..., dict[str, tf.Tensor]], **columns: Iterable[str]
) -> list[dict[str, Any]]:
    """Runs a function of string tensors `[batch]` over lists of str; gives each text's outputs.

    Texts of similar length are batched together. As many batches run side by side as there are
    cores: the matrix products of a decoding step are too small to gain much from several threads.
    Errors name the columns.
    """
    names, columns = list(columns), encoded(**columns)
    lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
    cores = _cores()
    most = min(_BATCH_TEXTS, max(_LEAST_BATCH, -(-len(lengths) // cores)))  # One for each core.
    batches = _batches(lengths, most)
    traced = isinstance(function, tf.types.experimental.PolymorphicFunction)
    if batches and traced and not tf.config.functions_run_eagerly():
        function = function.get_concrete_function()  # In this thread: Keras's settings are local.

    def run(batch):
        try:
            outputs = function(*(tf.constant([texts[i] for i in batch]) for texts in columns))
        except tf.errors.ResourceExhaustedError:
            raise InputError(
                f"{names[0]}[{batch[0]}] needs more memory than there is, with {len(batch) - 1:,} "
                "others that are no longer: take a smaller beam_size or n_best, or split its lines."
            ) from None
        return {name: np.asarray(tensor) for name, tensor in outputs.items()}

    rows = [None] * len(lengths)
    progress = _progress(len(lengths))
    pool = ThreadPoolExecutor(cores)
    try:
        for batch, outputs in zip(batches, pool.map(run, batches), strict=True):
            for row, i in enumerate(batch):
                rows[i] = {name: array[row] for name, array in outputs.items()}
            progress.update(len(batch))
    finally:  # Ctrl-C does not wait for TensorFlow.
        pool.shutdown(wait=False, cancel_futures=True)
        progress.close()
    return rows


def _batches(lengths, most):
    """The places of texts of these lengths in batches, longest texts first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches, start = [], 0
    while start < len(order):
        size = max(1, min(most, _BATCH_BYTES // max(1, lengths[order[start]])))
        batches.append(order[start : start + size])
        start += size
    return batches


def encoded(**columns: Iterable[str]) -> list[list[bytes]]:
    """Columns of texts in UTF-8; ValueError, which names them, if they differ in length."""
    names = " and ".join(columns)
    columns = [
        [utf8(f"{name}[{i}]", text) for i, text in enumerate(texts)]
        for name, texts in columns.items()
    ]
    if len({len(texts) for texts in columns}) > 1:
        numbers = " and ".join(str(len(texts)) for texts in columns)
        raise InputError(f"{names} must have the same length. Received: {numbers} texts")
    return columns


def chosen(columns: Mapping[str, Sequence[Any]], places: Iterable[int]) -> dict[str, list[Any]]:
    """The columns with the rows at some places."""
    return {name: [column[i] for i in places] for name, column in columns.items()}


def _cores():
    if hasattr(os, "sched_getaffinity"):  # Not on macOS.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _progress(total):
    """A progress bar for long lists, in notebooks only; the command has its own."""
    from tqdm.auto import tqdm

    shown = total >= _LONG_LIST and "ipykernel" in sys.modules
    return tqdm(total=total, unit=" texts", disable=not shown)


def utf8(name: str, text: str) -> bytes:
    """A text encoded as UTF-8; ValueError, which names it, if it cannot be."""
    if not isinstance(text, str):
        raise InputError(f"{name} must be a str. Received: {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} cannot be encoded as UTF-8: {error}") from None


def as_list(name: str, texts: Iterable[str], expected: str = "a list of str") -> list[str]:
    """A list from an iterable of texts; ValueError, which names it, for anything else."""
    # A str or a tensor would be split into its elements; a set has no order.
    others = (str, bytes, tf.Tensor, Mapping, Set)
    if isinstance(texts, others) or not isinstance(texts, Iterable):
        raise InputError(f"{name} must be {expected}. Received: {type(texts).__name__}")
    return list(texts)


def for_each(name: str, given: Any, number: int, kind: type, expected: str) -> list[Any]:
    """A value of a kind, or None, for each of `number` texts; given is one for all, or a list."""
    if isinstance(given, kind | None):
        return [given] * number
    values = as_list(name, given, f"{expected}, or a list with one for each text")
    if len(values) != number:
        raise InputError(
            f"{name} must be {expected}, or a list with one for each text. "
            f"Received: {len(values)} for {number} texts"
        )
    return values


def check_string_tensors(texts: Any, **columns: Any) -> None:
    """Refuses texts that are no string tensor `[batch]`, and columns of another shape."""
    for name, column in {"texts": texts, **columns}.items():
        if not (
            isinstance(column, tf.Tensor)
            and column.dtype == tf.string
            and column.shape.rank in (1, None)
        ):
            raise InputError(f"{name} must be a string tensor [batch]. Received: {column!r}")
        shapes = [texts.shape, column.shape]
        if not shapes[0].is_compatible_with(shapes[1]):
            raise InputError(
                f"texts and {name} must have the same length. Received: shapes {shapes}"
            )
