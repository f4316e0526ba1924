"""Figures: the course of a run, attention weights, the load of experts, the tree of a search."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from matplotlib.ticker import PercentFormatter

from keras_mt.decoding import SearchNode
from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.run_folder import read_log

__all__ = [
    "alignment_figure",
    "expert_load_figure",
    "heads_figure",
    "plot_alignment",
    "plot_expert_load",
    "plot_heads",
    "plot_run",
    "plot_search",
    "search_figure",
]

_BLUE, _RED, _GREY = "#1f5fa8", "#c0392b", "#777777"
_PALE = "#b8b8b8"


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
    loss, *middle, rate = figure.subplots(
        panels, 1, sharex=True, height_ratios=(2, *[1] * (panels - 1))
    )
    loss.plot(*column("loss"), color=_BLUE, label="training")
    steps, values = column("val_loss")
    if steps:
        loss.plot(steps, values, color=_RED, marker="o", markersize=3, label="validation")
    loss.set_ylabel("loss (nats a token)")
    loss.set_ylim(bottom=0)
    loss.legend(frameon=False)
    for bleu in middle:
        bleu.plot(bleu_steps, bleu_values, color=_RED, marker="o", markersize=3)
        bleu.set_ylabel("BLEU (validation)")
    rate.plot(*column("learning_rate"), color=_GREY)
    rate.set_ylabel("learning rate")
    rate.set_xlabel("step")
    rate.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    rate.set_ylim(bottom=0)
    for axes in (loss, *middle, rate):
        axes.spines[["top", "right"]].set_visible(False)
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
    _save(alignment_figure(source_pieces, target_pieces, scores), path)


def alignment_figure(
    source_pieces: Sequence[str], target_pieces: Sequence[str], scores: np.ndarray
) -> Figure:
    """The heat map of `plot_alignment` as a matplotlib figure; see there for the arguments.

    Example:

    >>> figure = alignment_figure(["O", "livro"], ["The", "book"], np.eye(2))
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['The', 'book']
    """
    scores = np.asarray(scores)
    longest = [max(map(len, pieces), default=0) for pieces in (source_pieces, target_pieces)]
    width = 1.6 + 0.45 * len(source_pieces) + 0.09 * longest[1]
    height = 1.2 + 0.36 * len(target_pieces) + 0.08 * longest[0]
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    image = _heat_map(axes, target_pieces, source_pieces, scores)
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="attention", fraction=0.04, pad=0.02)
    return figure


def plot_heads(
    query_pieces: Sequence[str],
    key_pieces: Sequence[str],
    scores: Sequence[np.ndarray],
    path: str | os.PathLike,
) -> None:
    """Draws every head of every layer, each as a heat map of what the queries attended to.

    Args:
        query_pieces: List of str, a label for each row of a map.
        key_pieces: List of str, a label for each of its columns.
        scores: For each layer the attention weights `[num_heads, query_pieces, key_pieces]` of one
            sentence: one row of the batch in each tensor of
            `model.attention_scores(source, target)["encoder"]`, for example.
        path: The picture to write, in the format of its suffix.

    Raises:
        ValueError: If the scores are not of these shapes.

    Example:

    >>> scores = model.attention_scores(source, target)["cross"]  # doctest: +SKIP
    >>> plot_heads(target_pieces, source_pieces, [x[0] for x in scores], "heads.png")
    ... # doctest: +SKIP
    """
    _save(heads_figure(query_pieces, key_pieces, scores), path)


def heads_figure(
    query_pieces: Sequence[str], key_pieces: Sequence[str], scores: Sequence[np.ndarray]
) -> Figure:
    """The maps of `plot_heads` as a matplotlib figure, a row for each layer; arguments as there.

    Example:

    >>> words, heads = ["The", "book"], np.full((4, 2, 2), 0.5)
    >>> len(heads_figure(words, words, [heads, heads]).axes)  # Two layers of four heads.
    8
    """
    scores = [np.asarray(each) for each in scores]
    size = len(query_pieces), len(key_pieces)
    if not scores or any(each.ndim != 3 or each.shape[1:] != size for each in scores):
        raise InputError(
            f"scores must hold an array [num_heads, {size[0]}, {size[1]}] for each layer. "
            f"Received: shapes {[each.shape for each in scores]}"
        )
    heads = max(map(len, scores))
    longest = [max(map(len, pieces), default=0) for pieces in (query_pieces, key_pieces)]
    cell = 0.21
    width = 0.6 + 0.08 * longest[0] + heads * (0.15 + cell * size[1])
    height = 0.4 + 0.08 * longest[1] + len(scores) * (0.3 + cell * size[0])
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(len(scores), heads, squeeze=False)
    for layer, row in enumerate(grid):
        for head, axes in enumerate(row):
            if head >= len(scores[layer]):
                axes.set_axis_off()
                continue
            _heat_map(axes, query_pieces, key_pieces, scores[layer][head])
            axes.tick_params(labelsize=8, labelleft=head == 0, labeltop=layer == 0)
            axes.set_xlabel(f"layer {layer + 1}, head {head + 1}", fontsize=8)
            axes.xaxis.set_label_position("bottom")
            axes.spines[:].set_visible(True)
            axes.spines[:].set_color(_PALE)
    return figure


def _heat_map(axes: Axes, rows, columns, weights):
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    # Pieces are text, dollar signs and all, not formulas.
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="left", parse_math=False)
    axes.set_yticks(range(len(rows)), rows, parse_math=False)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def plot_search(nodes: Sequence[SearchNode], path: str | os.PathLike) -> None:
    """Draws a search as a tree: what it kept, finished and pruned, and the path to the best.

    Each hypothesis is shown by its last token, with the probability of that token given those
    before it; a finished one has its score too.

    Args:
        nodes: What `Translator.search_tree` or `keras_mt.decoding.search_tree` returned.
        path: The picture to write, in the format of its suffix.

    Raises:
        ValueError: If there are no nodes.

    Example:

    >>> plot_search(translator.search_tree("A man is reading."), "tree.png")  # doctest: +SKIP
    """
    _save(search_figure(nodes), path)


def search_figure(nodes: Sequence[SearchNode]) -> Figure:
    """The tree of `plot_search` as a matplotlib figure; see there for the argument.

    Example:

    >>> from keras_mt.decoding import SearchNode
    >>> root = SearchNode("<s>", None, 0, 0.0, "kept", None)
    >>> figure = search_figure([root, SearchNode("</s>", 0, 1, -0.1, "finished", -0.1)])
    >>> figure.savefig("tree.png")
    """
    if not nodes:
        raise InputError("nodes must not be empty: the search looked at nothing.")
    best = _way_to_the_best(nodes)
    places = _places(nodes)
    steps = max(node.length for node in nodes)
    lowest = min(y for _, y in places)
    figure = Figure(figsize=(1.2 + 1.15 * steps, 0.9 - 0.4 * lowest), layout="constrained")
    axes = figure.subplots()
    styles = {
        "best": {"color": _RED, "linewidth": 2.0, "zorder": 3},
        "kept": {"color": _BLUE, "linewidth": 1.2, "zorder": 2},
        "pruned": {"color": _PALE, "linewidth": 0.7, "zorder": 1},
    }
    for place, (node, (x, y)) in enumerate(zip(nodes, places, strict=True)):
        kind = "best" if place in best else "pruned" if node.fate == "pruned" else "kept"
        style = styles[kind]
        start = (0, lowest / 2) if node.parent is None else places[node.parent]
        before = 0.0 if node.parent is None else nodes[node.parent].log_prob
        begin, end = start[0] + (0.0 if node.parent is None else 0.3), x - 0.3
        middle = (begin + end) / 2
        points = [(begin, start[1]), (middle, start[1]), (middle, y), (end, y)]
        codes = [Curve.MOVETO, *[Curve.CURVE4] * 3]
        axes.add_patch(PathPatch(Curve(points, codes), fill=False, **style))
        finished = node.fate == "finished"
        axes.text(
            x,
            y,
            str(node.token),
            ha="center",
            va="center",
            fontsize=9,
            color=_GREY if kind == "pruned" else style["color"],
            weight="bold" if place in best else "normal",
            parse_math=False,
            bbox={
                "boxstyle": "round,pad=0.2",
                "facecolor": "white",
                "edgecolor": style["color"] if finished else "none",
                "linewidth": 1,
            },
            zorder=4,
        )
        probability = np.exp(min(node.log_prob - before, 0.0))
        label = f"{probability:.2f}" if probability >= 0.005 else "< 0.01"
        if finished:
            label += f"   score {node.score:.2f}"
        axes.text(x, y - 0.36, label, ha="center", va="center", fontsize=6.5, color=_GREY, zorder=5)
    axes.plot(0, lowest / 2, marker="o", markersize=7, color=_RED, zorder=4)
    axes.set_xlim(-0.2, steps + 0.6)
    axes.set_ylim(lowest - 0.7, 0.9)
    axes.set_axis_off()
    legend = [axes.plot([], [], color=styles[kind]["color"], linewidth=2)[0] for kind in styles]
    names = ["the best", "kept", "pruned"]
    figure.legend(legend, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _way_to_the_best(nodes):
    """The indices of the finished hypothesis with the best score, and of those it continues."""
    finished = [i for i, node in enumerate(nodes) if node.fate == "finished"]
    place = max(finished, key=lambda i: nodes[i].score, default=None)
    way = set()
    while place is not None:
        way.add(place)
        place = nodes[place].parent
    return way


def _places(nodes):
    """The position of each node: a column for each length, in it the order of the parents.

    So no two lines cross.
    """
    columns = {}
    for place, node in enumerate(nodes):
        columns.setdefault(node.length, []).append(place)
    highest = max(map(len, columns.values()))
    found, rank = [None] * len(nodes), {None: 0}
    for length in sorted(columns):
        column = sorted(columns[length], key=lambda i: (rank[nodes[i].parent], i))
        first = (highest - len(column)) / 2
        for i, place in enumerate(column):
            rank[place] = i
            found[place] = length, -(first + i)
    return found


def plot_expert_load(loads: Mapping[str, np.ndarray], path: str | os.PathLike) -> None:
    """Draws which share of the tokens went through each expert, a bar chart for each mixture.

    A line shows the share that each would have if all had the same.

    Args:
        loads: A dict from the name of each mixture to the shares, floats `[num_experts]`, as
            `keras_mt.models.MixtureOfExpertsTransformer.expert_load` returns.
        path: The picture to write, in the format of its suffix.

    Raises:
        ValueError: If there are no loads.

    Example:

    >>> plot_expert_load(model.expert_load(source, target), "load.png")  # doctest: +SKIP
    """
    _save(expert_load_figure(loads), path)


def expert_load_figure(loads: Mapping[str, np.ndarray]) -> Figure:
    """The bar charts of `plot_expert_load` as a matplotlib figure; see there for the argument.

    Example:

    >>> len(expert_load_figure({"encoder": [0.2, 0.3, 0.5], "decoder": [0.4, 0.3, 0.3]}).axes)
    2
    """
    if not loads:
        raise InputError("loads must not be empty: the model has no mixture of experts.")
    widths = [0.7 + 0.3 * len(load) for load in loads.values()]
    figure = Figure(figsize=(0.8 + sum(widths), 2.6), layout="constrained")
    panels = figure.subplots(1, len(loads), sharey=True, squeeze=False, width_ratios=widths)[0]
    for axes, (name, load) in zip(panels, loads.items(), strict=True):
        axes.bar(range(1, len(load) + 1), load, color=_BLUE, width=0.7)
        axes.axhline(np.mean(load), color=_RED, linewidth=1)
        axes.set_title(name, fontsize=9, parse_math=False)
        axes.set_xticks(range(1, len(load) + 1))
        axes.set_xlabel("expert")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.tick_params(length=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("tokens that it sees")
    return figure


def _save(figure, path):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "keras_mt"}), atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix[1:], metadata=None)
