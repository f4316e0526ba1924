"""Step 13, a closer look: a mixture of experts, and which tokens its router sends where.

In place of one feed-forward network there are several, the experts. A router, a single matrix,
scores them for each token, and the token goes through the best two:

    p = softmax(x W_r)    y = sum_e w_e FFN_e(x)    w_e = p_e / (sum of the two chosen p)

So a model has many more parameters at nearly the same cost for a token. In training an expert takes
a limited number of tokens, `ceil(capacity_factor * 2 * tokens / experts)`, first choices before
second ones; what no longer fits passes by on the residual. A loss of its own pulls the router
towards an even load. This router is not trained.

    python examples/lectures/13_experts.py
"""

import math

import draw
import keras
import numpy as np
import walk
from keras import ops
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from keras_mt.layers import MixtureOfExperts

EXPERTS, FACTOR = 4, 1.0
arguments = walk.options(__doc__)
keras.utils.set_random_seed(3)
words = ["the", "ballerina", "is", "very", "excited", "that", "she", "will", "dance"]
x = keras.random.normal((1, len(words), 16))
layer = MixtureOfExperts(EXPERTS, d_ff=32, top_k=2, capacity_factor=FACTOR)
outputs = layer(x)[0]

names = [f"expert {e + 1}" for e in range(EXPERTS)]
p = ops.convert_to_numpy(ops.softmax(x[0] @ layer.router_kernel))
walk.table("The router's probabilities", p, words, names)
chosen = np.argsort(-p, axis=1)[:, :2]
weights = np.take_along_axis(p, chosen, axis=1)
weights /= weights.sum(1, keepdims=True)
by_hand = np.zeros_like(outputs)
for i in range(len(words)):
    for e, w in zip(chosen[i], weights[i], strict=True):
        hidden = ops.relu(x[0, i : i + 1] @ layer.inner_kernel[e] + layer.inner_bias[e])
        by_hand[i] += w * (hidden @ layer.output_kernel[e] + layer.output_bias[e])[0].numpy()
difference = np.abs(by_hand - ops.convert_to_numpy(outputs)).max()
print(f"\nby hand and the layer: they differ by {difference:.0e}")
walk.table("Share of the tokens that goes through each", ops.convert_to_numpy(layer.expert_load(x)),
           None, names)  # fmt: skip
capacity = math.ceil(FACTOR * 2 * len(words) / EXPERTS)
queues = [
    [(i, rank) for rank in range(2) for i in range(len(words)) if chosen[i, rank] == e]
    for e in range(EXPERTS)
]
dropped = sum(len(queue[capacity:]) for queue in queues)
print(f"capacity {capacity}: {dropped} of {2 * len(words)} choices are dropped in training")

figure = Figure(figsize=(draw.WIDTH, 3.6))
left, right = figure.subplots(1, 2)
draw.heat(left, p, words, names, "router: softmax(x W_r)")
for (i, rank), e in np.ndenumerate(chosen):
    color = (draw.RED, draw.ORANGE)[rank]
    frame = {"fill": False, "edgecolor": color, "linewidth": 2}
    left.add_patch(Rectangle((e - 0.46, i - 0.44), 0.92, 0.88, **frame))
for e, queue in enumerate(queues):
    for place, (i, rank) in enumerate(queue):
        fits, size = place < capacity, {"width": 0.92, "height": 0.76, "fontsize": 8.5}
        color = (draw.RED, draw.ORANGE)[rank] if fits else draw.PALE
        draw.box(right, e, place, words[i], color, filled=fits, **size)
right.axhline(capacity - 0.5, color=draw.GREY, linestyle="--")
right.text(-0.45, capacity - 0.4, "capacity: what is below is dropped", va="top", fontsize=9)
most = max(map(len, queues))
right.set(xlim=(-0.6, 3.6), ylim=(max(most, capacity + 1) - 0.4, -0.6))
right.set_xticks(range(EXPERTS), names)
right.set_yticks([])
right.tick_params(length=0)
right.spines[:].set_visible(False)
right.set_title("first choices red, second choices orange")
walk.save(figure, arguments.output, "13_experts.png")
