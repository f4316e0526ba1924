"""Step 9: the decoder block, and the mask that hides from a position what it has to predict.

In training the whole target goes through at once. So each position's scores of itself and of those
before it get 0 added, and those of later ones minus infinity, which the softmax turns into weight
0. Then the decoder attends to the source: its own queries, keys and values of the encoder's output.

    x = LayerNorm(x + Masked(x))    x = LayerNorm(x + Cross(x, memory))    x = LayerNorm(x + FFN(x))
"""

import keras
import numpy as np
import walk
from keras import ops
from matplotlib.figure import Figure

from keras_mt.layers import CausalSelfAttention, DecoderBlock
from keras_mt.layers.dot_product import causal_mask

arguments = walk.options(__doc__)
keras.utils.set_random_seed(1)
words = ["Lucas", "will", "travel"]
scores = np.array([[31, 27, 22], [27, 42, 31], [22, 31, 37]])  # Of step 5.
mask = np.where(causal_mask(3, 3), 0, -np.inf)
walk.table("Q K^T", scores, words, words, digits=0)
walk.table("the mask", mask, words, words, digits=0)
for name, scale in {"sqrt(3)": 3**0.5, "8": 8, "22": 22}.items():
    rows = ops.softmax((scores + mask) / scale)
    walk.table(f"softmax((Q K^T + mask) / {name})", rows, words, words)
# A divisor of about 22 comes nearest to the slide. (It has .1 in its first row, which is a slip:
# a position that sees only itself gives itself all of its weight.)
SLIDE = np.array([[1, 0, 0], [0.3, 0.7, 0], [0.3, 0.3, 0.4]])
walk.table("The lectures' slide", SLIDE, words, words, digits=1)

target, memory = keras.random.normal((1, 6, 32)), keras.random.normal((1, 8, 32))
block = DecoderBlock(num_heads=4, d_ff=64)
before = block(target, memory)
changed = np.array(target)
changed[0, 3] += 1
difference = np.abs(block(changed, memory) - before).max(axis=(0, 2))
walk.table("How much each output of a block changes with its input 3", difference, None, range(6))
_, causal = CausalSelfAttention(num_heads=1)(target, return_attention_scores=True)
_, cross = block(target, memory, return_attention_scores=True)

figure = Figure(figsize=(11, 3.2), layout="constrained")
panels = figure.subplots(1, 4)
walk.heat(panels[0], mask, words, words, "mask", digits=0, vmin=-1, cmap="Greys_r")
walk.heat(panels[1], np.array(ops.softmax((scores + mask) / 8)), words, words, "after the softmax")
panels[1].set_yticks([])
untrained = {"a causal layer": causal, "cross-attention": cross}
for axes, (title, weights) in zip(panels[2:], untrained.items(), strict=True):
    axes.imshow(weights[0, 0], cmap="Blues", vmin=0, vmax=0.5, aspect="auto")
    axes.set_title(f"{title}, untrained")
    axes.set_ylabel("target")
panels[2].set_xlabel("target")
panels[3].set_xlabel("source")
walk.save(figure, arguments.output, "09_decoder_block.png")
