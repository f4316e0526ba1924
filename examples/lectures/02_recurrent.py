"""Step 2: the recurrent encoder-decoder, and what is hard for it.

The encoder reads one word at a time, `h_j = f(h_{j-1}, x_j)`. The decoder starts from the last of
these states and writes one word at a time, `s_i = f(s_{i-1}, y_{i-1})`, `p(y_i) = softmax(E s_i)`.
All that it knows of the source is one vector, of the same size for 3 words and for 30. What a word
far back should have been is learned only through every step in between: its gradient is a product
of as many factors, and vanishes. Nor can two steps be computed in parallel.
"""

import keras
import numpy as np
import tensorflow as tf
import walk
from matplotlib.figure import Figure

from keras_mt.layers import CausalSelfAttention

LENGTH, WIDTH = 40, 64
arguments = walk.options(__doc__)
keras.utils.set_random_seed(1)


def gradients(layer):
    """How much the last state changes with each input, from the first to the last."""
    inputs = tf.random.normal((32, LENGTH, WIDTH))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        last = tf.reduce_sum(layer(inputs) * tf.random.normal((32, WIDTH)))
    return np.linalg.norm(tape.gradient(last, inputs), axis=-1).mean(0)


def attention(inputs):
    """Self-attention, of step 4: the last position looks at all others directly."""
    return CausalSelfAttention(num_heads=1)(inputs)[:, -1]


keeping = keras.layers.GRU(WIDTH, unroll=True)
keeping.build((None, LENGTH, WIDTH))
update, rest = np.full((2, WIDTH), 1.5), np.zeros((2, 2 * WIDTH))
keeping.cell.bias.assign(np.concatenate([update, rest], axis=1))
cells = {
    "simple recurrent cell": (keras.layers.SimpleRNN(WIDTH, unroll=True), walk.RED),
    "GRU": (keras.layers.GRU(WIDTH, unroll=True), walk.BLUE),
    "GRU whose gate keeps 95% at each step": (keeping, walk.ORANGE),
    "self-attention": (attention, walk.GREEN),
}
norms = {name: gradients(layer) for name, (layer, _) in cells.items()}
distances = np.arange(LENGTH)[::-1]
walk.table(
    "Gradient of the last state with respect to an input so many steps back (untrained)",
    [each[[-1, -6, -11, -21, -40]] for each in norms.values()],
    norms,
    [0, 5, 10, 20, 39],
    digits=6,
)

figure = Figure(figsize=(walk.WIDTH, 5.2))
unrolled, axes = figure.subplots(2, 1, height_ratios=(1, 1.3))
source, target = ["the", "movie", "was", "great"], ["<start>", "le", "film", "était", "bon"]
for i, (below, above) in enumerate(
    zip([*source, *target], [""] * 4 + [*target[1:], "<end>"], strict=True)
):
    colour = walk.BLUE if i < len(source) else walk.RED
    unrolled.text(
        i, 0, f"$h_{i + 1}$" if i < 4 else f"$s_{i - 3}$", ha="center", va="center", color="white",
        fontsize=13, bbox={"boxstyle": "round,pad=0.5", "facecolor": colour, "edgecolor": "none"},
    )  # fmt: skip
    arrow = {"arrowprops": {"arrowstyle": "->", "color": "#555555", "linewidth": 1.3}}
    unrolled.annotate("", (i, -0.28), (i, -0.68), **arrow)
    unrolled.text(i, -0.72, below, ha="center", va="top", fontsize=11)
    if i < 8:
        unrolled.annotate("", (i + 0.7, 0), (i + 0.3, 0), **arrow)
    if above:
        unrolled.annotate("", (i, 0.68), (i, 0.28), **arrow)
        unrolled.text(i, 0.72, above, ha="center", va="bottom", fontsize=11)
unrolled.annotate(
    "all that is known of the source", (3.5, 0.06), (2.1, 0.85), ha="center", color=walk.GREY,
    arrowprops={"arrowstyle": "-", "color": walk.GREY, "linestyle": ":"},
)  # fmt: skip
for x, name, colour in ((1.5, "encoder, English", walk.BLUE), (6, "decoder, French", walk.RED)):
    unrolled.text(x, -1.2, name, ha="center", color=colour)
unrolled.set_xlim(-0.6, 8.6)
unrolled.set_ylim(-1.25, 1.1)
unrolled.set_axis_off()
for name, (_, colour) in cells.items():
    axes.semilogy(distances, norms[name], color=colour, label=name)
axes.set_xlabel("steps between the input and the last state")
axes.set_ylabel("norm of the gradient")
axes.set_ylim(1e-9, 30)
axes.legend(loc="lower left")
walk.save(figure, arguments.output, "02_recurrent.png")
