"""Step 10: training. The whole target in one pass, each word given the true ones before it.

The decoder reads the target after a start token and predicts the same target followed by the end
token (teacher forcing). The loss is the cross-entropy against a distribution that leaves a little
to the other tokens (label smoothing), averaged over the tokens that are not padding:

    L = -sum_k q_k log p_k    q = (1 - eps) onehot + eps / V

The learning rate rises for some thousand steps, since a fresh post-norm stack has steep gradients
and Adam's moments have seen little, and then falls with the inverse square root of the step n:

    rate = d_model^-0.5 min(n^-0.5, n warmup_steps^-1.5)
"""

import draw
import keras
import numpy as np
import walk
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from keras_mt import WarmupInverseSquareRoot
from keras_mt.losses import CrossEntropy

arguments = walk.options(__doc__)
words = ["<pad>", "<start>", "<end>", "Lucas", "will", "travel"]
target = [words.index(word) for word in ["Lucas", "will", "travel", "<end>"]]
inputs = [words.index("<start>"), *target[:-1]]
print(f"\n{'sees':27} to predict")
for i in range(4):
    print(f"{' '.join(words[j] for j in inputs[: i + 1]):27} {words[target[i]]}")

probabilities = np.full((1, 6, 6), 0.02, "float32")  # The last two positions are padding.
probabilities[0, range(4), target] = 0.9
labels = np.array([[*target, 0, 0]])
for smoothing in (0.0, 0.1):
    loss = CrossEntropy(label_smoothing=smoothing)(labels, np.log(probabilities))
    print(f"\nlabel smoothing {smoothing}: loss {float(loss):.4f}", end="")
q = 0.9 * np.eye(6)[target] + 0.1 / 6
by_hand = -(q * np.log(probabilities[0, :4])).sum(-1).mean()
print(f"\nby hand, over the four real tokens: {by_hand:.4f}")

steps = np.arange(1, 20_001)
figure = Figure(figsize=(draw.WIDTH, 3))
left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
draw.heat(left, q, [words[j] for j in target], words, "target distribution, smoothed by 0.1")
left.set_xticks(range(6), words, rotation=40)
left.set_xlabel("token of the vocabulary")
left.set_ylabel("true token")
for name, d_model in {"base": 512, "big": 1024}.items():
    rate = keras.ops.convert_to_numpy(WarmupInverseSquareRoot(d_model, 4000)(steps - 1))
    color, lift = (draw.BLUE, 4e-5) if name == "base" else (draw.RED, -1e-4)
    right.plot(steps, rate, color=color)
    place = 12_000, rate[12_000] + lift
    draw.label(right, *place, f"{name}: d = {d_model}", ha="left", color=color)
    print(f"{name}: greatest rate {rate.max():.2e}, at step {steps[rate.argmax()]:,}")
right.axvline(4000, color=draw.GREY, linestyle=":")
right.set_title("the learning rate, with 4,000 warm-up steps")
right.set_ylabel("learning rate")
right.set_xlabel("step")
right.set_xticks(range(0, 20_001, 5000))
right.set_ylim(bottom=0)
walk.save(figure, arguments.output, "10_training.png")

figure, axes = draw.drawing(3.1)
read = [*(words[j] for j in inputs), "<pad>", "<pad>"]
predicted = [*(words[j] for j in target), "<pad>", "<pad>"]
axes.add_patch(Rectangle((1.2, 1.3), 6.7, 0.5, facecolor=draw.PALE, alpha=0.35))
axes.text(0.1, 1.55, "decoder,\nmasked", va="center")
for y, name in ((2.35, "predicts"), (0.75, "reads"), (2.85, "in the loss")):
    axes.text(0.1, y, name, va="center")
for i, (below, above) in enumerate(zip(read, predicted, strict=True)):
    x, is_real = 1.75 + 1.12 * i, i < len(target)
    draw.box(axes, x, 2.35, above, draw.RED if is_real else draw.PALE, filled=is_real)
    draw.box(axes, x, 0.75, below, draw.BLUE if is_real else draw.PALE, filled=is_real)
    axes.text(x, 2.85, "yes" if is_real else "no", ha="center", va="center", color=draw.GREY)
    for j in range(i + 1 if is_real else 0):  # What position i sees.
        draw.arrow(axes, (1.75 + 1.12 * j, 0.93), (x, 2.16), draw.GREY, alpha=0.3 + 0.7 * (i == j))
axes.text(
    draw.WIDTH / 2, 0.25, "Lucas will travel <end>, shifted right by one after <start>: "
    "position i sees positions 1 to i, and predicts the next token", ha="center", fontsize=9,
)  # fmt: skip
walk.save(figure, arguments.output, "10_shifted_right.png")
