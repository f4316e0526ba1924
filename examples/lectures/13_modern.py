"""Step 13, a closer look: rotary positions and grouped queries, as in Llama 3.

Rotary positions add nothing to the words. They turn each pair of numbers of a query or a key by an
angle that grows with its position, `angle = position * base^(-2i / d)` for pair i. Two vectors that
are turned alike keep their dot product, so that of a query and a key depends on their distance
alone, `q_m . k_n = f(q, k, m - n)`, and values stay as they are.

With grouped queries several heads share their keys and values. What decoding has to keep in memory
for each token shrinks by as much, and so does what each step has to read.

    python examples/lectures/13_modern.py
"""

import draw
import numpy as np
import walk
from keras import ops
from matplotlib.figure import Figure

from keras_mt.layers import CausalSelfAttention
from keras_mt.layers.rotary import rotate_by_position

LENGTH, WIDTH = 12, 8
arguments = walk.options(__doc__)
query, key = np.random.default_rng(4).normal(size=(2, WIDTH))


def turned(vector):
    """The same vector at each position."""
    same = np.tile(vector, (1, 1, LENGTH, 1)).astype("float32")
    return ops.convert_to_numpy(rotate_by_position(same))[0, 0]


products = turned(query) @ turned(key).T
walk.table("A query at position 6 . the same key at positions 2 to 10", products[6, 2:11], None,
           range(2, 11))  # fmt: skip
walk.table("A query at position 7 . the same key at positions 3 to 11", products[7, 3:12], None,
           range(3, 12))  # fmt: skip

figure = Figure(figsize=(draw.WIDTH, 2.9))
*planes, axes = figure.subplots(1, 3)
points = turned(np.array([1.0, 1, 1, 1, 0, 0, 0, 0]))
for pair, plane in enumerate(planes):
    for position in range(6):
        x, y = points[position, [pair, pair + WIDTH // 2]]
        draw.arrow(plane, (0, 0), (x, y), draw.BLUE, alpha=1 - 0.13 * position)
        if pair == 0 or position in (0, 5):
            draw.label(plane, 1.15 * x, 1.15 * y, position)
    plane.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal", xticks=[], yticks=[])
    plane.spines[:].set_visible(False)
    rate = 10000 ** (-2 * pair / WIDTH)
    plane.set_title(f"pair {pair}: {rate:g} radian a position")
    plane.set_xlabel("one vector, at positions 0 to 5")
image = axes.imshow(products, aspect="auto")
axes.set_xticks(range(0, LENGTH, 3))
axes.set_yticks(range(0, LENGTH, 3))
axes.set_title("after the rotation")
axes.set_xlabel("position of the key")
axes.set_ylabel("position of the query")
figure.colorbar(image, ax=axes, label="q · k", shrink=0.8)
walk.save(figure, arguments.output, "13_rotary.png")

HEADS, D_MODEL = 8, 512
names = {8: "multi-head", 2: "grouped queries", 1: "multi-query"}
figure, axes = draw.drawing(2.5)
rows = []
for column, (groups, name) in enumerate(names.items()):
    layer = CausalSelfAttention(num_heads=HEADS, num_key_value_heads=groups)
    layer.build((None, None, D_MODEL))
    kept = 2 * groups * D_MODEL // HEADS
    rows.append([layer.count_params(), kept])
    left, step = 0.75 + 2.45 * column, 0.28
    draw.label(axes, left + 3.5 * step, 2.3, name, fontsize=11)
    for head in range(HEADS):
        group = head * groups // HEADS
        x, below = left + step * head, left + step * ((group + 0.5) * HEADS / groups - 0.5)
        draw.box(axes, x, 1.85, "q", draw.BLUE, width=0.23, height=0.26)
        draw.arrow(axes, (below, 1.15), (x, 1.7))
        draw.box(axes, below, 1.0, "k", draw.RED, width=0.23, height=0.26)
        draw.box(axes, below, 0.7, "v", draw.GREEN, width=0.23, height=0.26)
    draw.label(axes, left + 3.5 * step, 0.3, f"{kept:,} numbers a token")
axes.text(0.1, 1.85, "heads", va="center")
axes.text(0.1, 0.85, "cache", va="center")
walk.table(f"A layer of {HEADS} heads, d_model {D_MODEL}", rows, names.values(),
           ["parameters", "cache a token"], digits=0)  # fmt: skip
walk.save(figure, arguments.output, "13_grouped_queries.png")
