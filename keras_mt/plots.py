"""Figures: the course of a run, and which source words each word of a translation attended to."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.run_folder import read_log

__all__ = ["plot_alignment", "plot_run"]


def plot_run(log: str | os.PathLike, path: str | os.PathLike) -> None:
    """Draws the loss, BLEU where it was measured, and the learning rate of a run over its steps.

    Args:
        log: The `log.csv` of a run folder.
        path: The picture to write, in the format of its suffix.

    Raises:
        ValueError: If the log holds no step yet.

    Example:

    >>> plot_run("runs/en_de/log.csv", "training.png")  # doctest: +SKIP
    """
    rows = [row for row in read_log(Path(log)) if row["loss"] or row["val_loss"]]
    if not rows:
        raise InputError(f"{log} holds no trained step yet.")

    def column(name):
        pairs = [(int(row["step"]), float(row[name])) for row in rows if row[name]]
        return zip(*pairs, strict=True) if pairs else ((), ())

    bleu_steps, bleu_values = column("val_bleu")
    panels = 3 if bleu_steps else 2
    figure = Figure(figsize=(8, 2 + 1.75 * panels), layout="constrained")
    heights = 2, *[1] * (panels - 1)
    loss, *middle, rate = figure.subplots(panels, 1, sharex=True, height_ratios=heights)
    loss.plot(*column("loss"), label="training")
    steps, values = column("val_loss")
    if steps:
        loss.plot(steps, values, marker="o", markersize=3, label="validation")
    loss.set(ylabel="loss (nats a token)", ylim=(0, None))
    loss.legend()
    for bleu in middle:
        bleu.plot(bleu_steps, bleu_values, marker="o", markersize=3)
        bleu.set_ylabel("BLEU (validation)")
    rate.plot(*column("learning_rate"))
    rate.set(ylabel="learning rate", xlabel="step", ylim=(0, None))
    rate.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    for axes in (loss, *middle, rate):
        axes.grid(axis="y", alpha=0.3)
    _save(figure, path)


def plot_alignment(
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    scores: np.ndarray,
    path: str | os.PathLike,
) -> None:
    """Draws which pieces of the source each piece of the target attended to.

    Args:
        source_pieces: List of str, the labels of the columns.
        target_pieces: List of str, the labels of the rows.
        scores: Attention weights `[target_pieces, source_pieces]`, as `Translator.align` returns.
        path: The picture to write, in the format of its suffix.

    Example:

    >>> plot_alignment(["O", "livro"], ["The", "book"], np.eye(2), "alignment.png")
    """
    scores = np.asarray(scores)
    longest = [max(map(len, pieces), default=0) for pieces in (source_pieces, target_pieces)]
    width = 1.6 + 0.45 * len(source_pieces) + 0.09 * longest[1]
    height = 1.2 + 0.36 * len(target_pieces) + 0.08 * longest[0]
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(scores, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    text = {"parse_math": False}  # Pieces may have dollar signs.
    axes.set_xticks(range(len(source_pieces)), source_pieces, rotation=60, ha="left", **text)
    axes.set_yticks(range(len(target_pieces)), target_pieces, **text)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.set(xlabel="source", ylabel="target")
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="attention", fraction=0.04, pad=0.02)
    _save(figure, path)


def _save(figure, path):
    """Writes a figure, whole or not at all."""
    with atomic_write(path) as temporary:
        figure.savefig(temporary)
