"""Step 1, on: a sentence becomes vectors: pieces, their ids, their embeddings, and their positions.

A tokenizer cuts a sentence into pieces of a fixed vocabulary, and each piece has an id. Id k stands
for the k-th row of the embedding matrix E, `[vocab_size, d_model]`: the product of a one-hot
vector, 1 at place k and 0 elsewhere, and E. The position is added, and the sum is what the first
block reads:

    x_i = sqrt(d_model) E[k_i] + p_i

The pieces and E are those of a trained model, by default this repository's English-German one.
"""

import draw
import numpy as np
import tensorflow as tf
import walk
from matplotlib.figure import Figure

from keras_mt.layers import PositionalEmbedding, sinusoidal_positions

arguments = walk.options(
    __doc__, run=walk.CAPTIONS, sentence="The ballerinas are dancing in the show."
)
translator, model = walk.trained(arguments.run)
tokenizer = translator.tokenizer
ids = tokenizer.source_ids(tokenizer.pieces(tf.constant([arguments.sentence]))).numpy()[0]
pieces = walk.pieces_of(tokenizer, ids)
walk.table(f"The pieces of “{arguments.sentence}” and their ids", ids, None, pieces, digits=0)

embeddings = model.source_embedding.embedding.embeddings.numpy()
vocab_size, width = embeddings.shape
one_hot = np.eye(vocab_size, dtype="float32")[ids]
rows = one_hot @ embeddings
shapes = [list(matrix.shape) for matrix in (one_hot, embeddings, rows)]
print("\none-hot {} times E {} is {};".format(*shapes), end="")
print(f" from the rows of E it differs by {np.abs(rows - embeddings[ids]).max():.0f}")

directions = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
names = walk.pieces_of(tokenizer, range(vocab_size))
print("\nNearest in E, by the cosine")
for piece in ("▁children", "▁sitting", "▁small", "▁blue", "▁Mann"):
    cosines = directions @ directions[names.index(piece)]
    found = [f"{names[i]} {cosines[i]:.2f}" for i in np.argsort(-cosines)[1:5]]
    print(f"  {piece:10} {', '.join(found)}")

positions = sinusoidal_positions(len(ids), width)
parts = {
    "√d E": np.sqrt(width) * rows,
    "p": positions,
    "√d E + p": np.sqrt(width) * rows + positions,
}
layer = PositionalEmbedding(vocab_size, width)
layer.build((None, None))
layer.set_weights([embeddings])
difference = np.abs(layer(ids[None])[0] - parts["√d E + p"]).max()
lengths = {"E": rows, **parts}
walk.table(
    f"Length of each vector, d = {width}",
    [np.linalg.norm(part, axis=1) for part in lengths.values()],
    lengths,
    pieces,
    digits=1,
)
print(f"\nPositionalEmbedding differs from √d E + p by at most {difference:g}")
first, rest = (np.sqrt(width) * np.abs(part) for part in np.split(embeddings, [32], axis=1))
print("mean size of √d E over all pieces:", end=" ")
print(f"{first.mean():.2f} in dimensions 0 to 31, {rest.mean():.2f} after")

titles = ("√d E: what the words are", "p: where they stand", "√d E + p: what the first block reads")
figure = Figure(figsize=(draw.WIDTH, 6))
for axes, title, values in zip(figure.subplots(3, 1), titles, parts.values(), strict=True):
    colors = {"cmap": "RdBu", "vmin": -3, "vmax": 3, "interpolation": "none"}
    image = draw.heat(axes, values, walk.words(pieces), [], title, None, **colors)
    axes.set_xticks(range(0, width, 32), range(0, width, 32))
axes.set_xlabel("dimension")
figure.colorbar(image, ax=figure.axes, label="value", fraction=0.03, pad=0.02, ticks=range(-3, 4))
walk.save(figure, arguments.output, "01_vectors.png")
