"""Step 6: several heads, since a word needs to look at several others.

A pronoun needs the noun that it stands for, a verb its subject, an ambiguous word its context; a
softmax is peaked and mostly looks at one word. So there are several heads, each with matrices of
its own, and their outputs are concatenated:

    MultiHead(x) = Concat(head_1, ..., head_h) W_O    head_i = Attention(x W_Q_i, x W_K_i, x W_V_i)

The pictures show this in shapes, and every head of a trained model's encoder for one sentence. By
default the model is this repository's English-German one. `06_one_word.py` looks at one word.

    python examples/lectures/06_heads.py --sentence "A man is reading a book."
"""

import keras
import numpy as np
import tensorflow as tf
import walk

from keras_mt.layers import MultiHeadAttention
from keras_mt.run_folder import RunFolder

arguments = walk.options(
    __doc__,
    run=str(walk.ROOT / "examples/multi30k/cased"),
    sentence="The ballerina is very excited that she will dance in the show.",
)
keras.utils.set_random_seed(1)
layer = MultiHeadAttention(num_heads=3)
words = keras.random.normal((1, 4, 9))
outputs, scores = layer(words, words, return_attention_scores=True)
print("\n3 heads of width 3 in a model of width 9, over 4 words")
for weight in layer.weights:
    print(f"  {weight.path:40} {tuple(weight.shape)}")
print(f"  attention, a matrix for each head {tuple(scores.shape)}")

CELL, MIDDLE = 0.1, 1.7  # The size of a number, and where the middle row is, in inches.
COLOURS = ("Blues", "Reds", "Greens")
figure, axes = walk.drawing(3.4)


def matrix(x, y, values, name, *cmaps):
    """Draws a matrix with its middle left at (x, y): darker cells are further from 0."""
    values = np.abs(np.asarray(values))
    rows, columns = values.shape
    bottom, top = y - CELL * rows / 2, y + CELL * rows / 2
    for i, cmap in enumerate(cmaps):
        part = values[:, i * columns // len(cmaps) : (i + 1) * columns // len(cmaps)]
        left = x + CELL * columns * i / len(cmaps)
        extent = (left, left + CELL * columns / len(cmaps), bottom, top)
        most = values.max()
        axes.imshow(part, cmap=cmap, extent=extent, vmin=-0.4 * most, vmax=most, zorder=2)
    middle = x + CELL * columns / 2
    walk.label(axes, middle, top + 0.12, name, fontsize=9, parse_math=True)
    walk.label(axes, middle, bottom - 0.12, f"[{rows}, {columns}]", fontsize=8, color=walk.GREY)
    return x + CELL * columns


kernel, bias = layer.output_dense.get_weights()
heads = [layer.query_dense(words)[0], layer.key_dense(words)[0], layer.value_dense(words)[0]]
joined = []
matrix(0.15, MIDDLE, words[0], "x", "Greys")
for i, cmap in enumerate(COLOURS):
    y, own = MIDDLE + 1.1 * (1 - i), slice(3 * i, 3 * i + 3)
    walk.arrow(axes, (1.1, MIDDLE), (1.4, y))
    for x, name, values in zip((1.5, 1.95, 2.4), "QKV", heads, strict=True):
        matrix(x, y, values[:, own], f"${name}_{i + 1}$", cmap)
    walk.arrow(axes, (2.77, y), (3.02, y))
    matrix(3.1, y, scores[0, i], "weights", cmap)
    walk.arrow(axes, (3.57, y), (3.82, y))
    joined.append(np.asarray(scores[0, i] @ heads[2][:, own]))
    matrix(3.9, y, joined[-1], f"head {i + 1}", cmap)
    walk.arrow(axes, (4.27, y), (4.6, MIDDLE))
joined = np.concatenate(joined, axis=1)
matrix(4.7, MIDDLE, joined, "Concat", *COLOURS)
walk.label(axes, 5.72, MIDDLE, "·")
matrix(5.84, MIDDLE, kernel, "$W_O$", "Greys")
walk.label(axes, 6.86, MIDDLE, "=")
matrix(6.98, MIDDLE, outputs[0], "output", "Greys")
difference = np.abs(joined @ kernel + bias - np.asarray(outputs[0])).max()
print(f"  Concat times W_O, and the layer's output: they differ by {difference:.0e}")
axes.set(xlim=(0, walk.WIDTH), ylim=(0, 3.4))
walk.save(figure, arguments.output, "06_concatenation.png")

folder = RunFolder(arguments.run)
if not folder.model_file.exists():
    raise SystemExit(f"{folder} is not a trained run: train one with `make demo`, or give --run.")
model, tokenizer = folder.load_model(), folder.load_tokenizer()
source = tokenizer.source_ids(tokenizer.pieces(tf.constant([arguments.sentence]))).to_tensor()
found = model.attention_scores(source, tf.constant([[tokenizer.bos_id]]))["encoder"]
found = np.array([scores[0] for scores in found])  # [blocks, heads, pieces, pieces]
labels = walk.words([piece.decode() for piece in tokenizer.id_to_string(source[0]).numpy()])
walk.save(walk.heads_figure(labels, labels, found), arguments.output, "06_heads.png")
