"""The tree of all hypotheses that a search considered, including those that it pruned.

It is recorded through `observe`, which `keras_mt.decoding.beam_search` calls at each step.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from walk import BLUE, GREY, PALE, RED

from keras_mt.decoding import NO_HYPOTHESIS, SearchOptions, beam_search


class SearchNode(NamedTuple):
    """A hypothesis that a search considered.

    Attributes:
        token: Its last token, an int; in the tree of a translation the piece, a str.
        parent: The index in the list of the hypothesis that it continues; None for the first
            token.
        length: Its number of tokens, with the end where there is one.
        log_prob: The log-probability of all its tokens.
        fate: `"kept"`: it was among those that live on; `"finished"`: it was set aside with its
            score; `"pruned"`: it was among the best continuations, but others were better.
        score: log_prob / length ** length_penalty of a finished one; else None.
    """

    token: int | str
    parent: int | None
    length: int
    log_prob: float
    fate: str
    score: float | None


def search_tree(step, cache, max_length, *, eos_id=3, **arguments):
    """Runs a beam search for one sequence and records what it kept, finished and pruned.

    The finished node with the best score is the hypothesis that `beam_search` returns. At each step
    it ranks twice as many continuations as there are beams, and these are the nodes.

    Args:
        step: As in `beam_search`; called eagerly.
        cache: As in `beam_search`, of a batch of one.
        max_length: `[1]`: the maximum number of tokens to generate, with the end.
        eos_id: The token that ends a hypothesis.
        **arguments: The other arguments of `beam_search`, but for `row_options` and `observe`.

    Returns:
        A list of `SearchNode`, sorted by length; nodes of the same length come best first.
    """
    names = [field.name for field in dataclasses.fields(SearchOptions)]
    options = SearchOptions(**{n: value for n, value in arguments.items() if n in names})
    nodes, live, length = [], [None] * options.beams, 0

    def observe(continuations, chosen):
        nonlocal live, length
        length += 1
        places = {}
        for rank, (log_prob, parent, token) in enumerate(_rows(continuations)):
            if log_prob <= NO_HYPOTHESIS / 2:
                continue
            ends = token == eos_id or length == max_length[0]
            finished = ends and rank < options.beams
            score = log_prob / length**options.length_penalty if finished else None
            places[parent, token] = len(nodes)
            fate = "finished" if finished else "pruned"
            nodes.append(SearchNode(token, live[parent], length, log_prob, fate, score))
        live = [places.get((parent, token)) for _, parent, token in _rows(chosen)]
        for place in live:
            if place is not None and nodes[place].fate == "pruned":
                nodes[place] = nodes[place]._replace(fate="kept")

    beam_search(step, cache, max_length, eos_id=eos_id, observe=observe, **arguments)
    return nodes


def _rows(continuations):
    return zip(*(x[0].numpy().tolist() for x in continuations), strict=True)


def translation_tree(translator, text):
    """The search tree of the translation of one sentence, whose tokens are pieces.

    This is what a `Translator` of one model asks of it and of its tokenizer: `keras_mt.models.
    Seq2Seq` and `keras_mt.text.BaseTokenizer` say the same for every architecture.
    """
    (model,), tokenizer = translator.models, translator.tokenizer
    pieces = tokenizer.pieces(tf.constant([text]))
    source = tokenizer.source_ids(pieces).to_tensor(tokenizer.padding_id)
    length = min(2 * int(pieces.row_lengths()[0]) + 10, model.max_length)
    nodes = search_tree(
        model.decode_step,
        lambda beams: model.start_decoding(source, beams),
        [translator.max_length or length],
        reorder=model.reorder_cache,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        padding_id=tokenizer.padding_id,
        forbidden_ids=tokenizer.forbidden_ids,
        **dataclasses.asdict(translator.options),
    )
    names = tokenizer.id_to_string(tf.constant([node.token for node in nodes])).numpy()
    return [
        node._replace(token=name.decode("utf-8")) for node, name in zip(nodes, names, strict=True)
    ]


def search_figure(nodes):
    """A search as a tree: what it kept, finished and pruned, and the path to the best.

    Each hypothesis is shown by its last token, with the probability of that token given those
    before it; a finished one has its score too.
    """
    best = best_path(nodes)
    places = positions_of(nodes)
    steps = max(node.length for node in nodes)
    lowest = min(y for _, y in places)
    figure = Figure(figsize=(1.2 + 1.15 * steps, 0.9 - 0.4 * lowest), layout="constrained")
    axes = figure.subplots()
    styles = {
        "best": {"color": RED, "linewidth": 2.0, "zorder": 3},
        "kept": {"color": BLUE, "linewidth": 1.2, "zorder": 2},
        "pruned": {"color": PALE, "linewidth": 0.7, "zorder": 1},
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
            color=GREY if kind == "pruned" else style["color"],
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
        axes.text(x, y - 0.36, label, ha="center", va="center", fontsize=6.5, color=GREY, zorder=5)
    axes.plot(0, lowest / 2, marker="o", markersize=7, color=RED, zorder=4)
    axes.set_xlim(-0.2, steps + 0.6)
    axes.set_ylim(lowest - 0.7, 0.9)
    axes.set_axis_off()
    legend = [axes.plot([], [], color=styles[kind]["color"], linewidth=2)[0] for kind in styles]
    names = ["the best", "kept", "pruned"]
    figure.legend(legend, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def best_path(nodes):
    """The indices of the finished hypothesis with the best score, and of those it continues."""
    finished = [i for i, node in enumerate(nodes) if node.fate == "finished"]
    place = max(finished, key=lambda i: nodes[i].score, default=None)
    way = set()
    while place is not None:
        way.add(place)
        place = nodes[place].parent
    return way


def positions_of(nodes):
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
