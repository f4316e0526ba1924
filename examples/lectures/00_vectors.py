"""Step 0: a sentence becomes vectors: pieces, their ids, their embeddings, and their positions.

A tokenizer cuts a sentence into pieces of a fixed vocabulary, and each piece has an id. Id k stands
for the k-th row of the embedding matrix E, `[vocab_size, d_model]`: the product of a one-hot
vector, 1 at place k and 0 elsewhere, and E. The position is added, and the sum is what the first
block reads:

    x_i = sqrt(d_model) E[k_i] + p_i

The pieces and E are those of a trained model, by default this repository's English-German one.
"""

import numpy as np
import tensorflow as tf
import walk
from matplotlib.figure import Figure

from keras_mt.layers import PositionalEmbedding, sinusoidal_positions
from keras_mt.run_folder import RunFolder

arguments = walk.options(
    __doc__,
    run=str(walk.ROOT / "examples/multi30k/cased"),
    sentence="The ballerinas are dancing in the show.",
)
folder = RunFolder(arguments.run)
if not folder.model_file.exists():
    raise SystemExit(f"{folder} is not a trained run: train one with `make demo`, or give --run.")
model, tokenizer = folder.load_model(), folder.load_tokenizer()
ids = tokenizer.source_ids(tokenizer.pieces(tf.constant([arguments.sentence]))).numpy()[0]
pieces = [piece.decode() for piece in tokenizer.id_to_string(tf.constant(ids)).numpy()]
walk.table(f"The pieces of “{arguments.sentence}” and their ids", ids, None, pieces, digits=0)

embeddings = model.source_embedding.embedding.embeddings.numpy()
vocab_size, width = embeddings.shape
one_hot = np.eye(vocab_size, dtype="float32")[ids]
rows = one_hot @ embeddings
shapes = [list(matrix.shape) for matrix in (one_hot, embeddings, rows)]
print("\none-hot {} times E {} is {};".format(*shapes), end="")
print(f" from the rows of E it differs by {np.abs(rows - embeddings[ids]).max():.0f}")

directions = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
names = [name.decode() for name in tokenizer.id_to_string(tf.range(vocab_size)).numpy()]
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

figure = Figure(figsize=(8, 5), layout="constrained")
for axes, (name, values) in zip(figure.subplots(3, 1), parts.items(), strict=True):
    image = axes.imshow(values, cmap="RdBu", vmin=-3, vmax=3, aspect="auto", interpolation="none")
    axes.set_yticks(range(len(pieces)), walk.words(pieces), fontsize=8)
    axes.tick_params(length=0)
    axes.set_title(name, loc="left")
axes.set_xlabel("dimension")
figure.colorbar(image, ax=figure.axes, fraction=0.03, pad=0.02, ticks=range(-3, 4))
walk.save(figure, arguments.output, "00_vectors.png")
