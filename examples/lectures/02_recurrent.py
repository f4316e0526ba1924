"""Step 2: the recurrent encoder-decoder, and what is hard for it.

The encoder reads one word at a time, `h_j = f(h_{j-1}, x_j)`. The decoder starts from the last of
these states and writes one word at a time, `s_i = f(s_{i-1}, y_{i-1})`, `p(y_i) = softmax(E s_i)`.
All that it knows of the source is one vector, of the same size for 3 words and for 30. What a word
far back should have been is learned only through every step in between: its gradient is a product
of as many factors, and vanishes. Nor can two steps be computed in parallel.
"""

import draw
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
    """Self-attention, of the next steps: the last position looks at all others directly."""
    return CausalSelfAttention(num_heads=1)(inputs)[:, -1]


keeping = keras.layers.GRU(WIDTH, unroll=True)
keeping.build((None, LENGTH, WIDTH))
update, rest = np.full((2, WIDTH), 1.5), np.zeros((2, 2 * WIDTH))
keeping.cell.bias.assign(np.concatenate([update, rest], axis=1))
cells = {
    "simple recurrent cell": keras.layers.SimpleRNN(WIDTH, unroll=True),
    "GRU": keras.layers.GRU(WIDTH, unroll=True),
    "GRU whose gate keeps 95% at each step": keeping,
    "self-attention": attention,
}
norms = {name: gradients(layer) for name, layer in cells.items()}
distances = np.arange(LENGTH)[::-1]
walk.table(
    "Gradient of the last state with respect to an input so many steps back (untrained)",
    [each[[-1, -6, -11, -21, -40]] for each in norms.values()],
    norms,
    [0, 5, 10, 20, 39],
    digits=6,
)

figure = Figure(figsize=(draw.WIDTH, 5.2))
unrolled, axes = figure.subplots(2, 1, height_ratios=(1, 1.3))
draw.unrolled(unrolled, ["the", "movie", "was", "great"], ["le", "film", "était", "bon"])
colors = draw.RED, draw.BLUE, draw.ORANGE, draw.GREEN
draw.falling(axes, distances, norms, colors, ((25, 8e-4), (18, 3e-5), (27, 0.012), (31, 0.6)))
axes.set_xlabel("steps between the input and the last state")
walk.save(figure, arguments.output, "02_recurrent.png")
