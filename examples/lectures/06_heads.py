"""Step 6: several heads, since a word needs to look at several others.

A pronoun needs the noun that it stands for, a verb its subject, an ambiguous word its context. One
softmax can split its weight between several words, but mixes what they say. So there are several
heads, each with matrices of its own, and their outputs are concatenated:

    MultiHead(x) = Concat(head_1, ..., head_h) W_O    head_i = Attention(x W_Q_i, x W_K_i, x W_V_i)

The pictures show this in shapes, and four heads of a trained model's encoder, by what they look at.
By default the model is this repository's English-German one. `06_one_word.py` looks at one word.

    python examples/lectures/06_heads.py --sentence "A man is reading a book."
"""

import draw
import keras
import numpy as np
import tensorflow as tf
import walk

from keras_mt.layers import MultiHeadAttention

arguments = walk.options(
    __doc__,
    run=walk.CAPTIONS,
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

kernel, bias = layer.output_dense.get_weights()
projections = (layer.query_dense, layer.key_dense, layer.value_dense)
projected = [np.array(projection(words)[0]) for projection in projections]
heads = [np.array(scores[0, i] @ projected[2][:, 3 * i : 3 * i + 3]) for i in range(3)]
difference = np.abs(np.concatenate(heads, axis=1) @ kernel + bias - outputs[0]).max()
print(f"  Concat times W_O, and the layer's output: they differ by {difference:.0e}")
figure = draw.several_heads(words[0], projected, scores[0], heads, kernel, outputs[0])
walk.save(figure, arguments.output, "06_concatenation.png")

translator, model = walk.trained(arguments.run)
tokenizer = translator.tokenizer
source = tokenizer.source_ids(tokenizer.pieces(tf.constant([arguments.sentence]))).to_tensor()
found = model.attention_scores(source, tf.constant([[tokenizer.bos_id]]))["encoder"]
found = np.array([scores[0] for scores in found])  # [blocks, heads, pieces, pieces]
pieces = walk.words(walk.pieces_of(tokenizer, source[0]))
length = len(pieces)
to_end = np.zeros((length, length))
to_end[:, -2:] = 1
tasks = {
    "the word before": np.eye(length, k=-1),
    "the next word": np.eye(length, k=1),
    "the end of the sentence": to_end,
    "all words alike": None,
}
shown = {}
print("\nThe head that looks most at")
for task, where in tasks.items():
    if where is None:  # The head whose largest weights are smallest.
        measured = -found.max(-1).mean(-1)
    else:
        measured = (found * where).sum((2, 3)) / where.any(1).sum()
    block, head = np.unravel_index(measured.argmax(), measured.shape)
    name = f"block {block + 1}, head {head + 1}"
    print(f"  {task:24} {name}: mean {abs(measured.max()):.2f}")
    shown[f"{task} ({name})"] = found[block, head]
walk.save(draw.attention_maps(shown, pieces), arguments.output, "06_heads.png")
