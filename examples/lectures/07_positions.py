"""Step 7: positions. Attention does not see the order of words: encodings of positions are added.

The encoding of position i is added to the embedding there: waves over the positions, each pair of
dimensions slower than the one before:

    p[i, 2j] = sin(i / 10000^(2j / d))    p[i, 2j + 1] = cos(i / 10000^(2j / d))

The encodings are computed once, for any length, and nothing is learned. Those of nearby positions
have a large dot product, which depends on their distance alone: the sum of cos((i - k) w_j). A
one-hot encoding does not have this property, nor does a learned one before it is trained.
"""

import draw
import numpy as np
import walk
from matplotlib.figure import Figure

from keras_mt.layers import sinusoidal_positions

arguments = walk.options(__doc__)
words = ["Lucas", "is", "visiting", "Rio", "in", "December"]
walk.table("The encodings of 6 positions, d = 4", sinusoidal_positions(6, 4), words)
small = sinusoidal_positions(6, 4)
walk.table("Their dot products", small @ small.T, words, words)
positions = sinusoidal_positions(100, 64)
products = positions @ positions.T
walk.table("d = 64: dot products of positions so far apart", products[50, 50:61], None, range(11))
band = [products.diagonal(distance).std() for distance in range(50)]
print(f"\nfor one distance they differ by {max(band):.1e} from position to position")

figure = Figure(figsize=(draw.WIDTH, 5.6))
grid = figure.add_gridspec(2, 6)
waves, whole = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
fine = np.linspace(0, 5, 200)
for j in range(4):
    curve = (np.cos if j % 2 else np.sin)(fine / 10000 ** (2 * (j // 2) / 4))
    color = (draw.BLUE, draw.RED, draw.GREEN, draw.ORANGE)[j]
    waves.plot(fine, curve, color=color)
    waves.plot(range(6), small[:, j], "o", color=color)
    name, height = f"dimension {j}", small[-1, j]
    waves.annotate(name, (5.15, height), va="center", color=color, annotation_clip=False)
waves.set_xticks(range(6), words, fontsize=8)
waves.set_yticks((-1, 0, 1))
waves.set_title("d = 4: a wave for each dimension")
waves.set_xlabel("position (word)")
waves.set_ylabel("value")
waves.set_xlim(-0.2, 6.5)
image = whole.imshow(positions.T, cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
whole.set_title("d = 64: 100 positions")
whole.set_xlabel("position")
whole.set_ylabel("dimension")
figure.colorbar(image, ax=whole, label="value", fraction=0.04, pad=0.02)
random = np.random.default_rng(1)
others = {
    "sinusoids": positions[:50],
    "learned, before training": random.normal(size=(50, 64)) / np.sqrt(2),
    "one-hot": np.eye(50) * np.sqrt(32),
}
for column, (name, encoding) in enumerate(others.items()):
    axes = figure.add_subplot(grid[1, 2 * column : 2 * column + 2])
    image = axes.imshow(encoding @ encoding.T, vmin=0, vmax=32)
    axes.set_title(name)
    axes.set_xlabel("position")
    axes.set_ylabel("" if column else "position")
figure.colorbar(image, ax=figure.axes[-3:], label="dot product", shrink=0.8)
walk.save(figure, arguments.output, "07_positions.png")
