"""Step 5: queries, keys and values. Each word's query is compared with all keys, to mix the values.

Attention is a soft look-up: a table has keys and values, a query is compared with each key, and the
better they agree, the more of that key's value is in the answer. All three are computed from the
words by learned matrices, `q_i = W_q x_i`, `k_j = W_k x_j`, `v_j = W_v x_j`:

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

The dot product of two vectors of d_k random numbers of variance 1 has variance d_k. Without the
square root the softmax of a wide model would be hard from the start, and hardly learn.
"""

import draw
import numpy as np
import walk
from keras import ops
from matplotlib.figure import Figure

from keras_mt.layers import scaled_dot_product_attention

arguments = walk.options(__doc__)
genres = ["romantic", "action", "sci-fi", "horror", "comedy"]
love, keys = np.array([2.0, 0.5]), np.array([[2, 0], [-1, 1], [0, -1], [-2, -1], [1, 2]])
walk.table("The query “love” against the keys of a table of films", ops.softmax(keys @ love),
           ["weight"], genres)  # fmt: skip

words = ["Lucas", "will", "travel"]
queries = np.array([[7, 4, -1], [-1, 7, 7], [2, 8, 3]], "float32")
keys = np.array([[5, 0, 4], [4, 1, 5], [1, 4, 1]], "float32")
values = np.array([[1, 0, 2], [0, 3, 1], [4, 1, 0]], "float32")
scores = queries @ keys.T
walk.table("Q K^T", scores, words, words, digits=0)
outputs, weights = scaled_dot_product_attention(*(x[None, None] for x in (queries, keys, values)))
weights = ops.convert_to_numpy(weights)[0, 0]
walk.table("softmax(Q K^T / sqrt(3))", weights, words, words)
walk.table("times V", ops.convert_to_numpy(outputs)[0, 0], words)

random, widths = np.random.default_rng(1), 2 ** np.arange(1, 11)
largest = {}
for name, root in {r"$q \cdot k$": 0, r"$q \cdot k / \sqrt{d_k}$": 0.5}.items():
    drawn = [random.normal(size=(2, 500, 8, d)) for d in widths]
    largest[name] = [
        np.array(ops.softmax((q[:, :1] * k).sum(-1) / d**root)).max(-1).mean()
        for d, (q, k) in zip(widths, drawn, strict=True)
    ]

figure = Figure(figsize=(draw.WIDTH, 2.7))
left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.2))
draw.heat(left, scores, words, words, r"$Q K^\top$", 0, vmin=0, vmax=60)
draw.heat(middle, weights, words, words, r"$\mathrm{softmax}(Q K^\top / \sqrt{3})$")
left.set_ylabel("query")
for axes in (left, middle):
    axes.set_xlabel("key")
for (name, values), color in zip(largest.items(), (draw.RED, draw.BLUE), strict=True):
    right.semilogx(widths, values, marker="o", color=color, base=2)
    draw.label(right, 32, values[4] - 0.12, name, color=color, parse_math=True)
right.set_title("random queries, 8 random keys")
right.set_ylabel("largest weight (mean)")
right.set_xlabel("width $d_k$")
right.set_ylim(0, 1)
walk.save(figure, arguments.output, "05_queries_keys_values.png")
