"""Step 6: several heads, since a word needs to look at several others.

A pronoun needs the noun that it stands for, a verb its subject, an ambiguous word its context; a
softmax is peaked and mostly looks at one word. So there are several heads, each with matrices of
its own, and their outputs are concatenated:

    MultiHead(x) = Concat(head_1, ..., head_h) W_O    head_i = Attention(x W_Q_i, x W_K_i, x W_V_i)

The pictures show a trained model's encoder, by default that of this repository's English-German
model: every head of every block for one sentence, and the heads that look furthest from one word
at others.
"""

import keras
import numpy as np
import tensorflow as tf
import walk
from matplotlib.figure import Figure

from keras_mt.layers import MultiHeadAttention
from keras_mt.run_folder import RunFolder

arguments = walk.options(
    __doc__,
    run=str(walk.ROOT / "examples/multi30k/cased"),
    sentence="The ballerina is very excited that she will dance in the show.",
    word="she",
)
layer = MultiHeadAttention(num_heads=3)
words = keras.random.normal((1, 4, 9))
_, scores = layer(words, words, return_attention_scores=True)
print("\n3 heads of width 3 in a model of width 9, over 4 words")
for weight in layer.weights:
    print(f"  {weight.path:40} {tuple(weight.shape)}")
print(f"  attention, a matrix for each head {tuple(scores.shape)}")

folder = RunFolder(arguments.run)
if not folder.is_finished:
    raise SystemExit(f"{folder} is not a trained run: train one with `make demo`, or give --run.")
model, tokenizer = folder.load_model(), folder.load_tokenizer()
source = tokenizer.source_ids(tokenizer.pieces(tf.constant([arguments.sentence]))).to_tensor()
target = tf.constant([[tokenizer.bos_id]])
found = model.attention_scores(source, target)["encoder"]
found = np.array([scores[0] for scores in found])  # [blocks, heads, pieces, pieces]
pieces = [piece.decode() for piece in tokenizer.id_to_string(source[0]).numpy()]
labels = walk.words(pieces)

walk.save(walk.heads_figure(labels, labels, found), arguments.output, "06_heads.png", dpi=150)

query = labels.index(arguments.word)
places = np.arange(len(labels))
# Not at the end of the sentence, where heads rest that have nothing to look for.
is_word = [label != "</s>" and any(map(str.isalnum, label)) for label in labels]
distances = (found[:, :, query] * np.abs(places - query) * is_word).sum(-1)
chosen = np.argsort(-distances, axis=None)[:3]
figure = Figure(figsize=(10, 1.7 * len(chosen)), layout="constrained")
panels = figure.subplots(len(chosen), 1, squeeze=False)[:, 0]
for axes, place in zip(panels, chosen, strict=True):
    block, head = np.unravel_index(place, distances.shape)
    weights = found[block, head, query]
    title = f"layer {block + 1}, head {head + 1}"
    walk.table(f"{title}: where “{labels[query]}” looks", weights, None, labels)
    reach, angle = max(query, len(labels) - 1 - query), np.linspace(0, np.pi, 40)
    for j, (label, weight) in enumerate(zip(labels, weights, strict=True)):
        axes.text(j, -0.05, label, ha="center", va="top", color=walk.RED if j == query else "black")
        strength, radius = weight / weights.max(), (j - query) / 2
        x = query + radius - radius * np.cos(angle)
        y = (0.3 + 0.7 * abs(j - query) / reach) * np.sin(angle) if radius else 0 * angle
        axes.plot(x, y, color=walk.BLUE, linewidth=4 * strength, alpha=0.15 + 0.85 * strength)
    title += f": the thickest is {weights.max():.2f}"
    axes.set_title(title, loc="left", fontsize=9, color=walk.GREY)
    axes.set_ylim(-0.3, 1.05)
    axes.set_axis_off()
walk.save(figure, arguments.output, "06_one_word.png")
