"""Lists of texts of any length, run in batches side by side; without TensorFlow."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from keras_mt.errors import InputError

# The maximum texts of a batch, and bytes: those of its longest text times their number.
_BATCH_TEXTS = 256
_BATCH_BYTES = 64 * 512
_LEAST_BATCH = 32  # The minimum texts of a batch when several run side by side.


def run_in_batches(
    function: Callable[..., Mapping[str, np.ndarray]],
    columns: Mapping[str, Sequence[str]],
    on_batch: Callable[[int], Any] | None = None,
) -> list[dict[str, Any]]:
    """Runs a function of columns of UTF-8, lists of bytes, on texts; gives each text's outputs.

    Texts of similar length are batched together. As many batches run side by side as there are
    cores: the matrix products of a decoding step are too small to gain much from several threads.
    `on_batch` is told the number of texts of each batch that is done.
    """
    columns = {name: [text.encode() for text in texts] for name, texts in columns.items()}
    lengths = [max(map(len, row)) for row in zip(*columns.values(), strict=True)]
    cores = usable_cores()
    most = min(_BATCH_TEXTS, max(_LEAST_BATCH, -(-len(lengths) // cores)))  # One for each core.
    batches = batches_of(lengths, most, _BATCH_BYTES)

    def run(batch):
        try:
            return function(**{name: [texts[i] for i in batch] for name, texts in columns.items()})
        except Exception as error:
            # TensorFlow, whose error the second one is, need not be installed.
            is_full = isinstance(error, MemoryError)
            if not is_full and type(error).__name__ != "ResourceExhaustedError":
                raise
            text = next(iter(columns.values()))[batch[0]]
            beginning = text[:60].decode("utf-8", "replace")
            raise InputError(
                f"The text of {len(text):,} bytes that begins with {beginning!r} needs more memory "
                f"than there is, with {len(batch) - 1:,} others that are no longer: take a smaller "
                "beam_size or n_best, or split its lines."
            ) from None

    rows = [None] * len(lengths)
    pool = ThreadPoolExecutor(cores)
    try:
        for batch, outputs in zip(batches, pool.map(run, batches), strict=True):
            for row, i in enumerate(batch):
                rows[i] = {name: array[row] for name, array in outputs.items()}
            if on_batch:
                on_batch(len(batch))
    finally:  # Ctrl-C does not wait for TensorFlow.
        pool.shutdown(wait=False, cancel_futures=True)
    return rows


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Not on macOS.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def batches_of(lengths: Sequence[int], most: int, size: float, least: float = 0) -> list[list[int]]:
    """The places of rows of these lengths in batches, longest first.

    A batch has at most `most` rows, and at most `size` in all, where each row counts as the
    longest; or it is one row. None is shorter than the share `least` of the longest.
    """
    batches, longest = [], 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        number = len(batches[-1]) + 1 if batches else 1
        is_full = number > most or number * longest > size
        if not batches or is_full or lengths[i] < least * longest:
            batches.append([])
            longest = lengths[i]
        batches[-1].append(i)
    return batches
