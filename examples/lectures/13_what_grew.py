"""Step 13: what grew out of it. Other stacks of the same sublayers, and other attention masks.

Encoder-only (BERT): every position sees all; words are masked, and predicted from both sides.
Decoder-only (GPT, Llama): each position sees those before it; one sequence holds the task and its
answer. The encoder-decoder lies in between. A sandwich puts attention first and feed-forward
networks last; a mixture of experts chooses a few of many feed-forward networks for each token.
"""

import draw
import keras
import numpy as np
import walk
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from keras_mt.models import ARCHITECTURES, DecoderOnly, Transformer

arguments = walk.options(__doc__)
SANDWICH = "ss" + "sf" * 4 + "ff"
size = {"vocab_size": 8000, "num_layers": 6, "d_model": 128, "num_heads": 4, "d_ff": 256}
LLAMA = {"pre_norm": True, "norm": "rms", "positions": "rotary", "num_key_value_heads": 2}
variants = {
    "Transformer, as in the paper": (Transformer, {}),
    "sandwich encoder, coefficient 2": (Transformer, {"encoder_sublayers": SANDWICH}),
    "Llama's sublayers": (Transformer, {**LLAMA, "gated": True, "activation": "silu"}),
    "decoder-only, GPT-2's blocks": (DecoderOnly, {}),
}
tokens = np.array([[5, 6, 7, 8]])
print("\n8,000 tokens, 6 layers, d_model 128, 4 heads, d_ff 256\n")
for name, (architecture, more) in variants.items():
    model = architecture(**size, **more)
    logits = model({"source": tokens, "target": tokens})
    print(f"  {name:34} {model.count_params():>11,} parameters, logits {tuple(logits.shape)}")
    keras.backend.clear_session()
print(f"\nkeras-mt train --architecture NAME, with NAME of: {', '.join(ARCHITECTURES)}")

COLORS = ListedColormap(["white", "#f0c8c0", "#bcd3ea", "#bfe0cb"])
figure = Figure(figsize=(draw.WIDTH, 4.6))
grid = figure.add_gridspec(2, 3, height_ratios=(1, 0.42))
n, source = 10, 5
causal = np.tril(np.ones((n, n)))
both = causal.copy()
both[:source, :source] = 2
both[source:, :source] = 3
masks = {
    "encoder-only (BERT)": (np.full((n, n), 2), "all see all", {}),
    "decoder-only (GPT, Llama)": (causal, "each sees itself and what is before", {}),
    "encoder-decoder": (
        both,
        "a target sees the source too",
        {(2, 2): "encoder\nself-attention", (2, 7): "cross-\nattention", (5.9, 8.5): "masked"},
    ),
}
for column, (name, (mask, says, parts)) in enumerate(masks.items()):
    axes = figure.add_subplot(grid[0, column])
    draw.heat(axes, mask, [], [], name, None, cmap=COLORS, vmax=3)
    axes.set_xticks(np.arange(n) - 0.5, minor=True)
    axes.set_yticks(np.arange(n) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel(f"key position\n{says}", fontsize=9)
    for place, text in parts.items():
        draw.label(axes, *place, text, fontsize=9)
axes.set_xticks([2, 7], ["source", "target"])
axes.set_yticks([2, 7], ["source", "target"], rotation=90, va="center")
figure.axes[0].set_ylabel("query position")
axes = figure.add_subplot(grid[1, :])
for y, (name, order) in enumerate({"sandwich": SANDWICH, "paper": "sf" * 6}.items()):
    draw.label(axes, -0.2, y, name, ha="right")
    for x, letter in enumerate(order):
        color = draw.BLUE if letter == "s" else draw.GREEN
        axes.barh(y, 0.92, left=x, height=0.7, color=color)
        draw.label(axes, x + 0.46, y, letter, color="white", fontsize=12)
axes.set(xlim=(-1.2, 12), xticks=[], yticks=[])
axes.spines[:].set_visible(False)
axes.set_xlabel("an encoder's sublayers, first to last: s self-attention, f feed-forward")
walk.save(figure, arguments.output, "13_what_grew.png")
