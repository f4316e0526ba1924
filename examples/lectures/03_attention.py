"""Step 3: attention in the decoder. For each word it writes, it looks back at the whole source.

The decoder's state s_i gets a score against each of the encoder's states h_j. A softmax turns the
scores into weights, and the mean of the h_j with these weights joins s_i to predict the word:

    e_ij = s_i . h_j                        dot product, without parameters
    e_ij = s_i . W h_j                      bilinear
    e_ij = v . tanh(W_1 s_i + W_2 h_j)      additive
    alpha_i = softmax(e_i)    c_i = sum_j alpha_ij h_j    p(y_i) from [c_i; s_i]

Taking only the best h_j is hard attention: its gradient is zero nearly everywhere, so nothing could
be learned through it. The softmax is a soft version of the same choice: the smaller the number that
the scores are divided by, the harder it gets.
"""

import draw
import numpy as np
import walk
from keras import ops
from matplotlib.figure import Figure

arguments = walk.options(__doc__)
source, target = ["the", "movie", "was", "great"], ["le", "film", "était", "bon"]
random, width = np.random.default_rng(83), 6
# States as a trained model may have them: s_i is near the h_j of the word it is about to translate.
h = 0.8 * random.normal(size=(4, width))
s = h + 0.5 * random.normal(size=(4, width))
w, w_1, w_2, v = (random.normal(size=shape) for shape in [(width, width)] * 3 + [(width,)])

scores = {
    "dot product": s @ h.T,
    "bilinear (W not trained)": s @ w @ h.T,
    "additive (W_1, W_2, v not trained)": np.tanh((s @ w_1)[:, None] + (h @ w_2)[None]) @ v,
}
for name, e in scores.items():
    walk.table(f"softmax of the scores: {name}", ops.softmax(e), target, source)
alpha = np.array(ops.softmax(scores["dot product"]))
walk.table("context c_i: the encoder's states, averaged with these weights", alpha @ h, target)
hard = np.eye(4)[alpha.argmax(1)]
print("\ndistance of the weights from hard attention, by what the scores are divided by")
for temperature in (1, 0.5, 0.1):
    softer = np.array(ops.softmax(scores["dot product"] / temperature))
    print(f"  {temperature}: {np.abs(softer - hard).max():.4f}")

figure = Figure(figsize=(5.6, 3.4))
axes = figure.subplots()
draw.heat(axes, alpha, target, source, "made-up states: each row is softmax(s · h), and sums to 1")
axes.set_xlabel("word of the source that is looked at")
axes.set_ylabel("word about to be written")
walk.save(figure, arguments.output, "03_attention.png")
