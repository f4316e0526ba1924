"""The tree of a search as a picture."""

import itertools

import numpy as np
from draw import BLUE, GREY, INK, ORANGE, PALE, PAPER, RED, WIDTH, drawing, label
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from search_tree import best_path

SHOWN = 0.05  # Continuations that are less probable are not drawn, unless they win.
ROW = 0.44
# The colour of the text, that of the line, and the line's width; "greedy" where the beam left it.
STYLES = {"the best": (RED, RED, 2.0), "kept": (BLUE, BLUE, 1.2)}
STYLES |= {"pruned": (GREY, PALE, 0.8), "greedy": (ORANGE, PALE, 0.8)}
GREEDY = {"color": ORANGE, "linewidth": 7, "alpha": 0.35}


def search_figure(nodes, greedy=(), source=""):
    """A search as a tree: what it kept, finished and pruned, the way to the best, and greedy's.

    Tokens that follow one another without an alternative share a label. The number below is their
    probability, given all before them; a finished hypothesis has its score too. Continuations of
    less than 5% are left out, unless they are part of the best hypothesis or of greedy's.

    Args:
        nodes: List of `SearchNode`, whose tokens are strings.
        greedy: List of `SearchNode`: what greedy search found, a node for each token.
        source: The sentence that is translated.
    """
    nodes, on_greedy = _with_greedy(nodes, greedy)
    boxes, root = _boxes(nodes, _kinds(nodes, on_greedy), on_greedy)
    rows = {chain[-1]: row for chain, row, _ in boxes}
    height = 1.55 + ROW * max(rows.values())
    figure, axes = drawing(height)
    steps = max(nodes[place].length for place in rows)
    column = (WIDTH - 0.6) / steps

    def point(place, row=None):
        x = 0.45 + column * (nodes[place].length - 0.5)
        return x, height - 0.75 - ROW * (rows[place] if row is None else row)

    label(axes, 0.15, height - 0.2, source, ha="left")
    label(axes, 0.15, height - 0.45, "step", color=GREY, ha="left")
    for step in range(steps):
        label(axes, 0.45 + column * (step + 0.5), height - 0.45, step + 1, color=GREY)
    axes.plot(0.25, height - 0.75 - ROW * root, marker="o", color=INK)
    for chain, row, kind in boxes:
        parent = nodes[chain[0]].parent
        x, y = (0.25, height - 0.75 - ROW * root) if parent is None else point(parent)
        (begin, _), (end, below) = point(chain[0], row), point(chain[-1])
        middle = (x + begin) / 2
        points = [(x, y), (middle, y), (middle, below), (begin, below), (end, below)]
        curve = Curve(points, [Curve.MOVETO, *[Curve.CURVE4] * 3, Curve.LINETO])
        color, line, width = STYLES[kind]
        axes.add_patch(PathPatch(curve, fill=False, color=line, linewidth=width))
        if chain[0] in on_greedy:
            axes.add_patch(PathPatch(curve, fill=False, zorder=0.9, **GREEDY))
        name = ": the best" if kind == "the best" else ": greedy search" * (chain[-1] in on_greedy)
        written = [nodes[place] for place in chain]
        _write(axes, written, nodes, (begin + end) / 2, below, color, name)
    caption = "below the tokens: their probability; framed: finished; grey: pruned"
    label(axes, WIDTH / 2, 0.2, caption, fontsize=9)
    return figure


def _write(axes, chain, nodes, x, y, color, name):
    """Tokens and, below them, their probability, the score, and which hypothesis it is."""
    parent, last = chain[0].parent, chain[-1]
    before = 0.0 if parent is None else nodes[parent].log_prob
    below = f"{np.exp(min(last.log_prob - before, 0.0)):.2f}"
    frame = {"boxstyle": "round,pad=0.15", "edgecolor": "none", "facecolor": PAPER}
    if last.score is not None:
        below += f", score {last.score:.2f}{name}"
        frame["edgecolor"] = color
    text = " ".join(node.token for node in chain)
    label(axes, x, y, text, color=color, fontsize=9.5, bbox=frame)
    label(axes, x, y - 0.19, below, color=GREY, fontsize=8, zorder=5)


def _with_greedy(nodes, greedy):
    """The nodes, with those of greedy search that are not among them; the indices of its way."""
    nodes, way = list(nodes), []
    for node in greedy:
        parent = way[-1] if way else None
        same = [i for i, n in enumerate(nodes) if (n.parent, n.token) == (parent, node.token)]
        if not same:
            nodes.append(node._replace(parent=parent, fate="pruned"))
        way.append(same[0] if same else len(nodes) - 1)
    return nodes, set(way)


def _kinds(nodes, on_greedy):
    """The style of each node."""
    best = best_path(nodes)
    return [
        "the best" if place in best
        else "kept" if node.fate != "pruned"
        else "greedy" if place in on_greedy
        else "pruned"
        for place, node in enumerate(nodes)
    ]  # fmt: skip


def _boxes(nodes, kinds, on_greedy):
    """What is drawn: chains of indices without an alternative, each with its row and its kind.

    Also the row of the root. A parent stands in the row of its best child.
    """
    children = {place: [] for place in (None, *range(len(nodes)))}
    for place, node in enumerate(nodes):
        before = 0.0 if node.parent is None else nodes[node.parent].log_prob
        wins = kinds[place] == "the best" or place in on_greedy
        if wins or node.log_prob - before >= np.log(SHOWN):
            children[node.parent].append(place)
    boxes, leaves = [], itertools.count()

    def in_order(places):  # The best first; then those that end at once, near their parent.
        return places[:1] + sorted(places[1:], key=lambda place: bool(children[place]))

    def grow(place):
        chain = [place]
        while len(below := children[chain[-1]]) == 1 and kinds[below[0]] == kinds[place]:
            chain += below
        rows = [grow(child) for child in in_order(below)]
        row = rows[0] if rows else next(leaves)
        boxes.append((chain, row, kinds[place]))
        return row

    root, *_ = [grow(place) for place in in_order(children[None])]
    return boxes, root
