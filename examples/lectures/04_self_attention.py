"""Step 4: self-attention. A sentence attends to itself, and this alone needs no learned weights.

Each output is a mean of all inputs, weighted by how similar they are:

    w_ij = softmax_j(x_i . x_j)    y_i = sum_j w_ij x_j

In a space of some dimensions a word is usually most similar to itself, so the diagonal is largest.
And the order plays no part: shuffle the words, and the same outputs come out shuffled (permutation
equivariance).
"""

import draw
import numpy as np
import walk
from keras import ops
from matplotlib.figure import Figure

from keras_mt.layers import scaled_dot_product_attention

arguments = walk.options(__doc__)
words = ["your", "cat", "is", "a", "lovely", "cat"]
random = np.random.default_rng(325)
embeddings = {word: 0.9 * random.normal(size=8) for word in dict.fromkeys(words)}
x = np.array([embeddings[word] for word in words], "float32")


def attend(x):
    """The layers' own function, on a batch of one, with one head; it divides by sqrt(width)."""
    outputs, weights = scaled_dot_product_attention(*[x[None, None]] * 3)
    return ops.convert_to_numpy(outputs)[0, 0], ops.convert_to_numpy(weights)[0, 0]


outputs, weights = attend(x)
walk.table("How much each word looks at each", weights, words, words)
print(f"\nrows sum to {weights.sum(1).round(4)}")
print(f"largest on the diagonal: {bool((weights.max(1) == weights.diagonal()).all())}")
print("both cats have the same vector, and so the same output, wherever they stand")
order = random.permutation(6)
difference = np.abs(attend(x[order])[0] - outputs[order]).max()
print(f"\nshuffled to “{' '.join(words[i] for i in order)}”, the outputs are shuffled likewise:")
print(f"they differ by {difference:.1e}")

figure = Figure(figsize=(5.6, 4.4))
axes = figure.subplots()
draw.heat(axes, weights, words, words, "made-up vectors: softmax(X Xᵀ / √8), each row sums to 1")
axes.set_xlabel("word that is looked at")
axes.set_ylabel("word that looks")
walk.save(figure, arguments.output, "04_self_attention.png")
