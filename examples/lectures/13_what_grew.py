"""Step 13: what grew out of it. Other stacks of the same sublayers, and other attention masks.

Encoder-only (BERT): every position sees all; words are masked, and predicted from both sides.
Decoder-only (GPT, Llama): each position sees those before it; one sequence holds the task and its
answer. The encoder-decoder lies in between. A sandwich puts attention first and feed-forward
networks last; a mixture of experts chooses a few of many feed-forward networks for each token.
"""

import keras
import numpy as np
import walk
from matplotlib.figure import Figure

from keras_mt.models import ARCHITECTURES, DecoderOnly, Transformer

arguments = walk.options(__doc__)
size = {"vocab_size": 8000, "num_layers": 6, "d_model": 128, "num_heads": 4, "d_ff": 256}
variants = {
    "Transformer, as in the paper": (Transformer, {}),
    "sandwich encoder, coefficient 2": (
        Transformer,
        {"encoder_sublayers": "ss" + "sf" * 4 + "ff"},
    ),
    "Llama's sublayers": (
        Transformer,
        {
            "pre_norm": True,
            "norm": "rms",
            "positions": "rotary",
            "gated": True,
            "activation": "silu",
            "num_key_value_heads": 2,
        },
    ),
    "decoder-only, GPT-2's blocks": (DecoderOnly, {}),
}
tokens = np.array([[5, 6, 7, 8]])
print(f"\n{size}\n")
for name, (architecture, more) in variants.items():
    model = architecture(**size, **more)
    logits = model({"source": tokens, "target": tokens})
    print(f"  {name:34} {model.count_params():>11,} parameters, logits {tuple(logits.shape)}")
    keras.backend.clear_session()
print(f"\nkeras-mt train --architecture NAME, with NAME of: {', '.join(ARCHITECTURES)}")

figure = Figure(figsize=(walk.WIDTH, 4.4))
grid = figure.add_gridspec(2, 3, height_ratios=(1, 0.45))
n, source = 10, 5
causal = np.tril(np.ones((n, n)))
both = causal.copy()
both[:source, :source] = 1
masks = {
    "encoder-only (BERT)": (np.ones((n, n)), "all see all"),
    "decoder-only (GPT, Llama)": (causal, "each sees what came before"),
    "encoder-decoder": (both, "the source, and what came before"),
}
for column, (name, (mask, says)) in enumerate(masks.items()):
    axes = figure.add_subplot(grid[0, column])
    axes.imshow(mask, vmin=0, vmax=1.5)
    axes.set_xticks(np.arange(n) - 0.5, [""] * n)
    axes.set_yticks(np.arange(n) - 0.5, [""] * n)
    axes.grid(color="white", linewidth=1.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(name)
    axes.set_xlabel(f"key position\n{says}", fontsize=9)
figure.axes[0].set_ylabel("query position")
axes = figure.add_subplot(grid[1, :])
orders = {"sandwich": "ss" + "sf" * 4 + "ff", "paper": "sf" * 6}
for y, order in enumerate(orders.values()):
    for x, letter in enumerate(order):
        colour = walk.BLUE if letter == "s" else walk.GREEN
        axes.barh(y, 0.92, left=x, height=0.7, color=colour)
        axes.text(x + 0.46, y, letter, ha="center", va="center", color="white", fontsize=12)
axes.set_yticks(range(2), orders)
axes.set_xticks([])
axes.tick_params(length=0)
axes.spines[:].set_visible(False)
axes.set_xlabel("an encoder's sublayers, first to last: s self-attention, f feed-forward")
walk.save(figure, arguments.output, "13_what_grew.png")
