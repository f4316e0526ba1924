"""Step 9: the decoder block, and the mask that hides from a position what it has to predict.

In training the whole target goes through at once. So each position's scores of itself and of those
before it get 0 added, and those of later ones minus infinity, which the softmax turns into weight
0. Then the decoder attends to the source: its own queries, keys and values of the encoder's output.

    x = LayerNorm(x + Masked(x))    x = LayerNorm(x + Cross(x, memory))    x = LayerNorm(x + FFN(x))

The picture has the mask in numbers, and both kinds of attention in a trained model, by default this
repository's English-German one:

    python examples/lectures/09_decoder_block.py --sentence "A man is reading a book."
"""

import draw
import keras
import numpy as np
import tensorflow as tf
import walk
from keras import ops
from matplotlib.figure import Figure

from keras_mt.layers import DecoderBlock
from keras_mt.layers.dot_product import causal_mask

arguments = walk.options(__doc__, run=walk.CAPTIONS, sentence="Two dogs are playing in the snow.")
keras.utils.set_random_seed(1)
words = ["Lucas", "will", "travel"]
SCORES = np.array([[31, 27, 22], [23, 38, 34], [22, 31, 37]])  # Of 05_queries_keys_values.py.
mask = np.where(causal_mask(3, 3), 0, -np.inf)
walk.table("Q K^T", SCORES, words, words, digits=0)
walk.table("the mask", mask, words, words, digits=0)
masked = np.array(ops.softmax(SCORES / 3**0.5 + mask))
walk.table("softmax(Q K^T / sqrt(3) + mask)", masked, words, words)

target, memory = keras.random.normal((1, 6, 32)), keras.random.normal((1, 8, 32))
block = DecoderBlock(num_heads=4, d_ff=64)
before = block(target, memory)
changed = np.array(target)
changed[0, 3] += 1
difference = np.abs(block(changed, memory) - before).max(axis=(0, 2))
walk.table("How much each output of a block changes with its input 3", difference, None, range(6))

translator, model = walk.trained(arguments.run)
tokenizer = translator.tokenizer
texts = tf.constant([arguments.sentence]), tf.constant([translator(arguments.sentence)])
source, target = map(tokenizer.pieces, texts)
source = tokenizer.source_ids(source).to_tensor()
target = tf.concat([[[tokenizer.bos_id]], target.to_tensor()], axis=1)
scores = model.attention_scores(source, target)
source, target = (walk.words(walk.pieces_of(tokenizer, ids[0])) for ids in (source, target))

figure = Figure(figsize=(draw.WIDTH, 6))
upper, lower = figure.subfigures(2, 1, height_ratios=(1, 1.8))
left, right = upper.subplots(1, 2)
draw.heat(left, mask, words, words, "the mask: added to the scores", 0, vmin=-1, cmap="Greys_r")
image = draw.heat(right, masked, words, words, "softmax of scores and mask")
left.set_ylabel("query")
for axes in (left, right):
    axes.set_xlabel("key")
trained = {
    "masked self-attention (trained, first block)": (scores["decoder"][0], target),
    "cross-attention (trained, last block)": (scores["cross"][-1], source),
}
panels = lower.subplots(1, 2)
for axes, (title, (weights, keys)) in zip(panels, trained.items(), strict=True):
    draw.heat(axes, np.mean(weights[0], axis=0), target, keys, title, None)
    draw.turn(axes)
panels[0].set(xlabel="key: target so far", ylabel="query: last token read")
panels[1].set_xlabel("key: source")
for axes, part in ((right, upper), (panels, lower)):
    part.colorbar(image, ax=axes, label="weight, mean of the heads" if part is lower else "weight")
walk.save(figure, arguments.output, "09_decoder_block.png")
