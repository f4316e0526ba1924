"""How the lectures' pictures are drawn: boxes, arrows and heat maps, and the pictures of them."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

WIDTH = 8  # Of a picture as wide as a page, in inches.
BLUE, ORANGE, GREEN, RED = "#1f5fa8", "#c87800", "#2e8b57", "#c0392b"
INK, GREY, PALE, PAPER = "black", "dimgray", "lightgray", "white"
matplotlib.rcParams.update(
    {"axes.titlesize": 10, "figure.constrained_layout.use": True, "image.cmap": "Blues"}
    | {"axes.spines.top": False, "axes.spines.right": False}
)


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
    """A heat map, with its numbers written in unless `digits` is None."""
    image = axes.imshow(values, aspect="auto", **{"vmin": 0, "vmax": 1} | kwargs)
    for (i, j), x in np.ndenumerate(values) if digits is not None else ():
        text = "-∞" if np.isneginf(x) else f"{x:.{digits}f}"
        label(axes, j, i, text, color=PAPER if image.norm(x) > 0.6 else INK)
    axes.set_xticks(range(len(columns)), columns, parse_math=False)
    axes.set_yticks(range(len(rows)), rows, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title)
    return image


def attention_maps(weights, words):
    """Four heat maps of what words look at, by their titles, with one colour bar."""
    figure = Figure(figsize=(WIDTH, 7.6))
    for axes, (title, values) in zip(figure.subplots(2, 2).flat, weights.items(), strict=True):
        image = heat(axes, values, words, words, title, None)
        axes.tick_params(axis="x", labelrotation=90)
    figure.supxlabel("a word that is looked at", fontsize=10)
    figure.supylabel("a word that looks", fontsize=10)
    figure.colorbar(image, ax=figure.axes, label="attention weight", fraction=0.03, pad=0.02)
    return figure


def falling(axes, x, curves, colors, places):
    """Curves on a logarithmic axis, each with its name at a place."""
    for (name, values), color, place in zip(curves.items(), colors, places, strict=True):
        axes.semilogy(x, values, color=color)
        label(axes, *place, name, color=color)
    axes.set_ylabel("norm of the gradient")


def turn(axes):
    """Turns the words below a heat map, where they are too long to stand side by side."""
    axes.tick_params(axis="x", labelrotation=50)
    for tick in axes.get_xticklabels():
        tick.set(ha="right", rotation_mode="anchor")


def unrolled(axes, source, target):
    """A recurrent encoder-decoder over time: what each state reads and writes."""
    read, written = [*source, "<start>", *target], [""] * len(source) + [*target, "<end>"]
    for i, (below, above) in enumerate(zip(read, written, strict=True)):
        j = i - len(source)
        color, state = (BLUE, f"$h_{i + 1}$") if j < 0 else (RED, f"$s_{j + 1}$")
        box(axes, i, 0, state, color, 0.5, 0.56, fontsize=13, parse_math=True)
        arrow(axes, (i, -0.68), (i, -0.28))
        label(axes, i, -0.85, below)
        if i:
            arrow(axes, (i - 0.75, 0), (i - 0.25, 0))
        if above:
            arrow(axes, (i, 0.28), (i, 0.68))
            label(axes, i, 0.85, above)
    middle = len(source) - 0.5
    arrow(axes, (middle - 1.2, 0.78), (middle, 0.06), style="-", linestyle=":")
    label(axes, middle - 1.3, 0.88, "all that is known of the source", color=GREY)
    label(axes, (len(source) - 1) / 2, -1.2, "encoder, English", color=BLUE)
    label(axes, len(source) + len(target) / 2, -1.2, "decoder, French", color=RED)
    axes.set(xlim=(-0.6, len(read) - 0.4), ylim=(-1.3, 1))
    axes.set_axis_off()


CELL = 0.1  # The side of a number in a matrix, in inches.


def matrix(axes, x, y, values, name, *cmaps):
    """A matrix with its middle left at (x, y), in as many parts as colours: darker is further
    from 0."""
    values = np.abs(np.asarray(values))
    rows, columns = values.shape
    bottom, top = y - CELL * rows / 2, y + CELL * rows / 2
    for i, (part, cmap) in enumerate(zip(np.split(values, len(cmaps), 1), cmaps, strict=True)):
        left, width = x + CELL * part.shape[1] * i, CELL * part.shape[1]
        most = values.max()
        axes.imshow(part, cmap=cmap, extent=(left, left + width, bottom, top), vmin=-0.4 * most,
                    vmax=most, zorder=2)  # fmt: skip
    middle = x + CELL * columns / 2
    label(axes, middle, top + 0.12, name, fontsize=9, parse_math=True)
    label(axes, middle, bottom - 0.12, f"[{rows}, {columns}]", fontsize=8, color=GREY)


def several_heads(x, projected, weights, heads, kernel, output):
    """Three heads side by side: each with its Q, K and V, its weights, and what it gives."""
    figure, axes = drawing(3.4)
    middle, colors = 1.7, ("Blues", "Reds", "Greens")
    matrix(axes, 0.15, middle, x, "x", "Greys")
    for i, color in enumerate(colors):
        y, own = middle + 1.1 * (1 - i), slice(3 * i, 3 * i + 3)
        arrow(axes, (1.1, middle), (1.4, y))
        for left, name, values in zip((1.5, 1.95, 2.4), "QKV", projected, strict=True):
            matrix(axes, left, y, values[:, own], f"${name}_{i + 1}$", color)
        arrow(axes, (2.77, y), (3.02, y))
        matrix(axes, 3.1, y, weights[i], "weights", color)
        arrow(axes, (3.57, y), (3.82, y))
        matrix(axes, 3.9, y, heads[i], f"head {i + 1}", color)
        arrow(axes, (4.27, y), (4.6, middle))
    matrix(axes, 4.7, middle, np.concatenate(heads, axis=1), "Concat", *colors)
    label(axes, 5.72, middle, "·")
    matrix(axes, 5.84, middle, kernel, "$W_O$", "Greys")
    label(axes, 6.86, middle, "=")
    matrix(axes, 6.98, middle, output, "output", "Greys")
    axes.set(xlim=(0, WIDTH), ylim=(0, 3.4))
    return figure


def arcs(axes, words, query, weights, title):
    """Lines from a word to all, as thick as their weights, which stand below; a ring for itself."""
    reach, angle = max(query, len(words) - 1 - query), np.linspace(0, np.pi, 60)
    for j, (word, weight) in enumerate(zip(words, weights, strict=True)):
        label(axes, j, -0.2, word, color=RED if j == query else INK)
        label(axes, j, -0.48, f"{weight:.2f}", fontsize=8.5, color=INK if weight > 0.1 else GREY)
        if j == query:
            x, y = query + 0.16 * np.cos(2 * angle), 0.16 + 0.16 * np.sin(2 * angle)
        else:
            radius = (j - query) / 2
            x = query + radius - radius * np.cos(angle)
            y = (0.25 + 0.75 * abs(j - query) / reach) * np.sin(angle)
        axes.plot(x, y, color=BLUE, linewidth=9 * weight, solid_capstyle="butt")
    axes.set_title(title, loc="left")
    label(axes, -0.6, -0.48, "weight", fontsize=8.5, ha="right", color=GREY)
    axes.set(xlim=(-1.6, len(words) - 0.4), ylim=(-0.6, 1.08))
    axes.set_axis_off()


def growing(sentence, tokens, probabilities):
    """A row for each step of greedy search: what was read before, what is read, the prediction."""
    steps = len(probabilities)
    column, row = (WIDTH - 1.2) / (steps + 1), 0.42
    figure, axes = drawing(row * steps + 0.9)
    top = row * steps + 0.4
    label(axes, 0.15, top + 0.3, sentence, ha="left")
    for i, probability in enumerate(probabilities):
        y = top - row * (i + 0.5)
        label(axes, 0.15, y, f"step {i + 1}", color=GREY, ha="left")
        for j in range(i + 2):
            color = PALE if j < i else BLUE if j == i else RED
            x = 0.75 + column * (j + 0.5)
            box(axes, x, y, tokens[j], color, 0.92 * column, 0.3, filled=j >= i, fontsize=9)
        label(axes, x + 0.52 * column, y, f"{probability:.2f}", ha="left", fontsize=9, color=RED)
    legend = "blue: read now; outlined: read before, keys and values kept; red: predicted, with its"
    label(axes, WIDTH / 2, 0.2, f"{legend} probability", fontsize=9)
    return figure
