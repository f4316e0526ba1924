"""Step 5: queries, keys and values. Each word's query is compared with all keys, to mix the values.

Attention is a soft look-up: a table has keys and values, a query is compared with each key, and the
better they agree, the more of that key's value is in the answer. All three are computed from the
words by learned matrices, `q_i = W_q x_i`, `k_j = W_k x_j`, `v_j = W_v x_j`:

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

The dot product of two vectors of d_k random numbers of variance 1 has variance d_k. Without the
square root the softmax of a wide model would be hard from the start, and hardly learn.
"""

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
queries = np.array([[7, 4, -1], [-1, 6, 8], [2, 8, 3]], "float32")
keys = np.array([[5, 0, 4], [4, 1, 5], [1, 4, 1]], "float32")
values = np.array([[1, 0, 2], [0, 3, 1], [4, 1, 0]], "float32")
scores = queries @ keys.T
walk.table("Q K^T", scores, words, words, digits=0)
outputs, weights = scaled_dot_product_attention(*(x[None, None] for x in (queries, keys, values)))
weights = ops.convert_to_numpy(weights)[0, 0]
walk.table("softmax(Q K^T / sqrt(3))", weights, words, words)
walk.table("times V", ops.convert_to_numpy(outputs)[0, 0], words)

# The lectures' slide has the rows below. Is there a divisor of the scores that gives them?
SLIDE = np.array([[0.6, 0.2, 0.2], [0.1, 0.7, 0.2], [0.2, 0.4, 0.4]])
scales = np.arange(1, 40, 0.1)
softmaxes = [np.array(ops.softmax(scores / scale)) for scale in scales]
errors = [np.abs(each - SLIDE).sum() for each in softmaxes]
nearest = scales[np.argmin(errors)]
walk.table("The lectures' slide", SLIDE, words, words, digits=1)
walk.table("softmax(Q K^T / 8), the paper's d_k = 64", ops.softmax(scores / 8), words, words)
walk.table(f"Nearest, scores divided by {nearest:.1f}", softmaxes[np.argmin(errors)], words, words)
found = [bool((each.round(1) == SLIDE).all()) for each in softmaxes]
print(f"any divisor from 1 to 40 that gives the slide's rows: {any(found)}; they are a sketch")

random, widths = np.random.default_rng(1), 2 ** np.arange(1, 11)
largest = {}
for name, root in {"q · k": 0, "q · k / √d_k": 0.5}.items():
    drawn = [random.normal(size=(2, 500, 8, d)) for d in widths]
    largest[name] = [
        np.array(ops.softmax((q[:, :1] * k).sum(-1) / d**root)).max(-1).mean()
        for d, (q, k) in zip(widths, drawn, strict=True)
    ]

figure = Figure(figsize=(walk.WIDTH, 2.7))
left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.2))
walk.heat(left, scores, words, words, "Q Kᵀ", digits=0, vmin=0, vmax=60)
walk.heat(middle, weights, words, words, "softmax(Q Kᵀ / √3)")
left.set_ylabel("query")
for axes in (left, middle):
    axes.set_xlabel("key")
for (name, values), colour in zip(largest.items(), (walk.RED, walk.BLUE), strict=True):
    right.semilogx(widths, values, marker="o", color=colour, label=name, base=2)
right.set_title("random queries, 8 random keys")
right.set_ylabel("largest weight (mean)")
right.set_xlabel("width d_k")
right.set_ylim(0, 1)
right.legend()
walk.save(figure, arguments.output, "05_queries_keys_values.png")
