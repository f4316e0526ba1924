"""Step 9: the decoder block, and the mask that hides from a position what it has to predict.

In training the whole target goes through at once. So each position's scores of itself and of those
before it get 0 added, and those of later ones minus infinity, which the softmax turns into weight
0. Then the decoder attends to the source: its own queries, keys and values of the encoder's output.

    x = LayerNorm(x + Masked(x))    x = LayerNorm(x + Cross(x, memory))    x = LayerNorm(x + FFN(x))

The picture has the mask in numbers, and both kinds of attention in a trained model, by default this
repository's English-German one:

    python examples/lectures/09_decoder_block.py --sentence "A man is reading a book."
"""

import keras
import numpy as np
import tensorflow as tf
import walk
from keras import ops
from matplotlib.figure import Figure

import keras_mt
from keras_mt.layers import DecoderBlock
from keras_mt.layers.dot_product import causal_mask

arguments = walk.options(
    __doc__,
    run=str(walk.ROOT / "examples/multi30k/cased"),
    sentence="Two dogs are playing in the snow.",
)
keras.utils.set_random_seed(1)
words = ["Lucas", "will", "travel"]
SCORES = np.array([[31, 27, 22], [27, 42, 31], [22, 31, 37]])  # Of step 5.
mask = np.where(causal_mask(3, 3), 0, -np.inf)
walk.table("Q K^T", SCORES, words, words, digits=0)
walk.table("the mask", mask, words, words, digits=0)
for name, scale in {"sqrt(3)": 3**0.5, "8": 8, "22": 22}.items():
    rows = ops.softmax((SCORES + mask) / scale)
    walk.table(f"softmax((Q K^T + mask) / {name})", rows, words, words)
# A divisor of about 22 comes nearest to the slide. (It has .1 in its first row, which is a slip:
# a position that sees only itself gives itself all of its weight.)
SLIDE = np.array([[1, 0, 0], [0.3, 0.7, 0], [0.3, 0.3, 0.4]])
walk.table("The lectures' slide", SLIDE, words, words, digits=1)

target, memory = keras.random.normal((1, 6, 32)), keras.random.normal((1, 8, 32))
block = DecoderBlock(num_heads=4, d_ff=64)
before = block(target, memory)
changed = np.array(target)
changed[0, 3] += 1
difference = np.abs(block(changed, memory) - before).max(axis=(0, 2))
walk.table("How much each output of a block changes with its input 3", difference, None, range(6))

translator = keras_mt.Translator.load(arguments.run)
(model,), tokenizer = translator.models, translator.tokenizer
texts = tf.constant([arguments.sentence]), tf.constant([translator(arguments.sentence)])
source, target = map(tokenizer.pieces, texts)
source = tokenizer.source_ids(source).to_tensor()
target = tf.concat([[[tokenizer.bos_id]], target.to_tensor()], axis=1)
scores = model.attention_scores(source, target)
source, target = (
    walk.words([piece.decode() for piece in tokenizer.id_to_string(ids[0]).numpy()])
    for ids in (source, target)
)

figure = Figure(figsize=(walk.WIDTH, 6))
upper, lower = figure.subfigures(2, 1, height_ratios=(1, 1.7))
left, right = upper.subplots(1, 2)
walk.heat(left, mask, words, words, "mask, added to the scores", 0, vmin=-1, cmap="Greys_r")
after = np.array(ops.softmax((SCORES + mask) / 8))
walk.heat(right, after, words, words, "weights after the softmax")
left.set_ylabel("query")
for axes in (left, right):
    axes.set_xlabel("key")
trained = {
    "masked self-attention, first block": (scores["decoder"][0], target),
    "cross-attention, last block": (scores["cross"][-1], source),
}
panels = lower.subplots(1, 2)
for axes, (title, (weights, keys)) in zip(panels, trained.items(), strict=True):
    axes.imshow(np.mean(weights[0], axis=0), vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(keys)), keys, rotation=50, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title)
panels[0].set(xlabel="key: target so far", ylabel="query: last token read")
panels[1].set_xlabel("key: source")
figure.supxlabel("lower row: a trained model, mean over the heads of a block", fontsize=9)
walk.save(figure, arguments.output, "09_decoder_block.png")
