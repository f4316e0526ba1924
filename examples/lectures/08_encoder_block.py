"""Step 8: the encoder block: attention and a feed-forward network, each with residual and norm.

    x = LayerNorm(x + MultiHead(x))    x = LayerNorm(x + max(0, x W_1 + b_1) W_2 + b_2)

The network sees each position by itself, as a convolution of width 1 does. The residual sum gives
the gradient a way past every sublayer, so that it arrives at the bottom of a deep stack;
the normalization keeps it from growing on the way. Layer normalization gives each position mean 0
and variance 1, whatever else is in the batch; batch normalization does this for each feature, over
the batch.
"""

import draw
import keras
import numpy as np
import tensorflow as tf
import walk
from matplotlib.figure import Figure

from keras_mt.layers import EncoderBlock, FeedForward

DEPTH = 24
arguments = walk.options(__doc__)
keras.utils.set_random_seed(1)

network = FeedForward(d_ff=64)
x = keras.random.normal((2, 7, 32))
outputs = network(x)
w_1, b_1, w_2, b_2 = network.get_weights()
hidden = tf.nn.relu(tf.nn.conv1d(x, w_1[None], 1, "VALID") + b_1)
difference = tf.abs(tf.nn.conv1d(hidden, w_2[None], 1, "VALID") + b_2 - outputs)
print("\nfeed-forward network and two convolutions of width 1:", end=" ")
print(f"largest difference {np.max(difference):.0e}")
block = EncoderBlock(num_heads=8, d_ff=2048)
block.build((None, None, 512))
print(f"one block of the paper's base model has {block.count_params():,} parameters")

batch = np.array([[1.0, 2, 3, 6], [10, 20, 30, 60], [4, 4, 8, 8]], "float32")
by_position = keras.layers.LayerNormalization()(batch)
by_feature = keras.layers.BatchNormalization()(batch, training=True)
walk.table("Three positions of width 4", batch, digits=0)
walk.table("Layer normalization: each row has mean 0 and variance 1", by_position)
walk.table("Batch normalization: each column has mean 0 and variance 1", by_feature)


def gradients(sublayer):
    """The gradient's norm at the input of each of DEPTH sublayers, from the bottom up."""
    states = [keras.random.normal((4, 16, 64))]
    with tf.GradientTape() as tape:
        tape.watch(states[0])
        for _ in range(DEPTH):
            states.append(sublayer(states[-1], FeedForward(d_ff=128)))
        loss = tf.reduce_mean(states[-1] * tf.random.normal((4, 16, 64)))
    norms = np.array([tf.norm(gradient) for gradient in tape.gradient(loss, states)])
    return norms / norms[-1]


frames = {
    "f(x)": lambda x, f: f(x),
    "x + f(x)": lambda x, f: x + f(x),
    "LayerNorm(x + f(x))": lambda x, f: keras.layers.LayerNormalization()(x + f(x)),
}
norms = {name: gradients(frame) for name, frame in frames.items()}
walk.table(f"The gradient at the bottom of {DEPTH} sublayers, relative to that at the top",
           [[each[0] for each in norms.values()]], None, norms, digits=7)  # fmt: skip

figure = Figure(figsize=(draw.WIDTH, 2.9))
*normed, axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.5))
titles = ("layer norm: each row", "batch norm: each column")
for panel, values, title in zip(normed, (by_position, by_feature), titles, strict=True):
    draw.heat(panel, values, range(1, 4), range(1, 5), title, cmap="RdBu", vmin=-2, vmax=2)
    panel.set_xlabel("feature")
normed[0].set_ylabel("position")
colors = draw.RED, draw.BLUE, draw.GREEN
draw.falling(axes, range(DEPTH + 1), norms, colors, ((15, 7e-4), (13, 60), (6, 0.35)))
axes.set_xlabel("sublayers below")
axes.set_title("gradient, relative to that at the top")
walk.save(figure, arguments.output, "08_encoder_block.png")

figure, axes = draw.drawing(2.75)
for y, name, is_pre in ((2.1, "post-norm, the paper's", False), (0.85, "pre-norm", True)):
    axes.text(0.1, y + 0.35, name, fontsize=11)
    axes.text(0.1, y, "x [S, d]", va="center")
    draw.arrow(axes, (0.75, y), (7.9, y), draw.BLUE, linewidth=3)
    for i in range(4):
        x, sublayer = 0.85 + 1.72 * i, ("attention", "feed-forward")[i % 2]
        color = draw.RED if i % 2 == 0 else draw.GREEN
        add = x + (1.54 if is_pre else 1.12)
        draw.arrow(axes, (x, y), (x, y - 0.55), draw.GREY, "-")
        draw.arrow(axes, (x, y - 0.55), (add, y - 0.55), draw.GREY, "-")
        draw.arrow(axes, (add, y - 0.55), (add, y - 0.12), draw.GREY)
        if is_pre:
            draw.box(axes, x + 0.27, y - 0.55, "norm", draw.ORANGE, 0.44, 0.3, fontsize=9)
        middle = x + (0.98 if is_pre else 0.56)
        draw.box(axes, middle, y - 0.55, sublayer, color, 0.88, 0.3, fontsize=9)
        draw.box(axes, add, y, "+", draw.BLUE, 0.24, 0.24, filled=False)
        if not is_pre:
            draw.box(axes, add + 0.36, y, "norm", draw.ORANGE, 0.44, 0.3, fontsize=9)
walk.save(figure, arguments.output, "08_residual_stream.png")
