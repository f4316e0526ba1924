"""What the lectures' scripts share: their options, and how they print and draw."""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Before TensorFlow is imported.

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "examples"))  # For `phrasebook`.
WIDTH = 8  # Of a picture as wide as a page, in inches.
BLUE, ORANGE, GREEN, RED = "C0", "C1", "C2", "C3"  # matplotlib's own.
INK, GREY, PALE, PAPER = "black", "gray", "lightgray", "white"
matplotlib.rcParams.update(
    {"axes.titlesize": 10, "figure.constrained_layout.use": True, "image.cmap": "Blues"}
)


def options(doc, **more):
    """The command line: `--output FOLDER`, and `--NAME VALUE` for each default in `more`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("runs/lectures"), help="for pictures")
    for name, default in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()


def table(title, values, rows=None, columns=None, digits=2):
    """Prints a matrix, with its labels."""
    values = np.atleast_2d(np.asarray(values))
    texts = [[f"{x:.{digits}f}" for x in row] for row in values]
    rows = [""] * len(values) if rows is None else list(rows)
    columns = [] if columns is None else [[str(column) for column in columns]]
    widths = [max(map(len, column)) for column in zip(*columns, *texts, strict=True)]
    margin = max(map(len, rows))
    print(f"\n{title}")
    for label, row in zip([""] * len(columns) + rows, columns + texts, strict=True):
        cells = "  ".join(f"{x:>{w}}" for x, w in zip(row, widths, strict=True))
        print(f"  {label:{margin}}  {cells}")


def drawing(height):
    """A figure as wide as a page, to draw on in inches from its lower left corner."""
    figure = Figure(figsize=(WIDTH, height), layout="none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def box(axes, x, y, text, color=BLUE, width=0.9, height=0.36, filled=True, **kwargs):
    """A rounded box around a point, with a text in it."""
    corner = (x - width / 2, y - height / 2)
    face = color if filled else PAPER
    shape = {"boxstyle": "round,pad=0,rounding_size=0.06", "edgecolor": color, "facecolor": face}
    axes.add_patch(FancyBboxPatch(corner, width, height, linewidth=1.2, zorder=3, **shape))
    label(axes, x, y, text, **{"color": PAPER if filled else INK, "zorder": 4} | kwargs)


def label(axes, x, y, text, **kwargs):
    """A text around a point."""
    axes.text(x, y, text, **{"ha": "center", "va": "center", "parse_math": False} | kwargs)


def arrow(axes, start, end, color=GREY, style="->", **kwargs):
    """An arrow between two points."""
    line = {"color": color, "arrowstyle": style, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=line | kwargs, zorder=2)


def heat(axes, values, rows, columns, title, digits=2, **kwargs):
    """A heat map with its numbers written in."""
    values = np.asarray(values)
    kwargs = {"vmin": 0, "vmax": 1} | kwargs
    axes.imshow(values, aspect="auto", **kwargs)
    for i, row in enumerate(values):
        for j, x in enumerate(row):
            shade = (x - kwargs["vmin"]) / (kwargs["vmax"] - kwargs["vmin"])
            text = "-∞" if np.isneginf(x) else f"{x:.{digits}f}"
            axes.text(
                j, i, text, ha="center", va="center", color="white" if shade > 0.6 else "black"
            )
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title)


def heads_figure(query_pieces, key_pieces, scores):
    """Every head of every layer as a heat map of what the queries attended to, a row a layer.

    Args:
        query_pieces: List of str, a label for each row of a map.
        key_pieces: List of str, a label for each of its columns.
        scores: For each layer the attention weights `[num_heads, query_pieces, key_pieces]` of one
            sentence.
    """
    heads = max(map(len, scores))
    longest = [max(map(len, pieces)) for pieces in (query_pieces, key_pieces)]
    cell = min(0.21, (WIDTH - 1.1 - 0.07 * longest[0]) / (heads * len(key_pieces)))
    width = 1.1 + 0.07 * longest[0] + heads * cell * len(key_pieces)
    height = 0.8 + 0.07 * longest[1] + len(scores) * (0.3 + cell * len(query_pieces))
    figure = Figure(figsize=(width, height))
    grid = figure.subplots(len(scores), heads, squeeze=False)
    for layer, row in enumerate(grid):
        for head, axes in enumerate(row):
            if head >= len(scores[layer]):
                axes.set_axis_off()
                continue
            axes.imshow(scores[layer][head], vmin=0, vmax=1, aspect="auto")
            text = {"parse_math": False}  # Pieces may have dollar signs.
            axes.set_xticks(range(len(key_pieces)), key_pieces, rotation=90, **text)
            axes.set_yticks(range(len(query_pieces)), query_pieces, **text)
            axes.xaxis.tick_top()
            axes.tick_params(length=0, labelsize=7, labelleft=head == 0, labeltop=layer == 0)
            axes.set_xlabel(f"layer {layer + 1}, head {head + 1}", fontsize=8)
            axes.xaxis.set_label_position("bottom")
            axes.spines[:].set(color=PALE, visible=True)
    figure.supxlabel("a word that is looked at", fontsize=9)
    figure.supylabel("a word that looks", fontsize=9)
    return figure


def words(pieces):
    """Pieces as one reads them: "▁walk", "ing", "▁" are "walk", "-ing", "␣"."""
    return [
        piece[1:] or "␣" if piece[0] == "▁" else f"-{piece}" if piece.isalpha() else piece
        for piece in pieces
    ]


def save(figure, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / name, dpi=150)
    print(f"\npicture: {folder / name}")
