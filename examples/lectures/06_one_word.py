"""Step 6, a closer look: a pronoun, and the noun that it stands for.

In "The books are behind the box and the cup, and they are new." the books are new, and in "The
books are behind the box and the cups, and it is new." the box. Who translates the pronoun into
Portuguese has to know, as it has the gender of its noun: "eles" stands for "os livros", "ela" for
"a caixa". This script makes such sentences from the phrasebook's words, always with one noun of the
pronoun's number among three, and trains one encoder block with four heads, some seconds, to say
which of "ele", "ela", "eles" and "elas" the pronoun is. It measures on other sentences how often
that is right, and how much of its weight each head puts, from the pronoun, on the noun; the rest of
the block sees each position alone, so what it knows of the noun came through the heads. The picture
shows the head that finds the noun best in both of the sentences above.

    python examples/lectures/06_one_word.py --epochs 20
"""

import random

import draw
import keras
import numpy as np
import walk
from matplotlib.figure import Figure
from phrasebook import grammar

from keras_mt.layers import EncoderBlock, PositionalEmbedding

CLASSES = ("text", "object", "furniture", "tableware", "wear", "vehicle")
POSITIONS = ("on", "behind", "near", "next to", "in front of")
ADJECTIVES = ("new", "old", "beautiful", "cheap", "red", "white")
PORTUGUESE = ("ele", "ela", "eles", "elas")
EXAMPLES = {
    "the books are behind the box and the cup , and they are new .": "eles",
    "the books are behind the box and the cups , and it is new .": "ela",
}


def sentences(count):
    """For each sentence the pronoun in Portuguese, the noun, and whether the pronoun tells which
    noun is meant: not if all three have one gender."""
    rng, found = random.Random(1), {}
    nouns = {noun.pt: noun for name in CLASSES for noun in grammar.BY_CLASS[name]}
    nouns = [noun for noun in nouns.values() if " " not in noun.en]
    while len(found) < count:
        is_plural, place, three = rng.random() < 0.5, rng.randrange(3), rng.sample(nouns, 3)
        number = [is_plural == (i == place) for i in range(3)]  # Whether each is plural.
        a, b, c = (x.en_plural if many else x.en for x, many in zip(three, number, strict=True))
        there, it = "are" if number[0] else "is", "they are" if is_plural else "it is"
        text = f"the {a} {there} {rng.choice(POSITIONS)} the {b} and the {c} ,"
        text += f" and {it} {rng.choice(ADJECTIVES)} ."
        gender = three[place].gender
        pronoun = PORTUGUESE[2 * is_plural + (gender == "f")]
        tells = len({noun.gender for noun in three}) > 1
        found[text] = pronoun, (a, b, c)[place], tells
    return {text: row for text, row in found.items() if text not in EXAMPLES}


arguments = walk.options(__doc__, epochs=20)
keras.utils.set_random_seed(1)
made = list(sentences(7000).items())
training = {text: pronoun for text, (pronoun, *_) in made[:6000]}
test = {text: (pronoun, noun) for text, (pronoun, noun, tells) in made[6000:] if tells}
vocabulary = ["<pad>", *sorted({word for text in training for word in text.split()})]
print(f"\n{len(training):,} sentences to train with, {len(vocabulary)} words; {len(test)} others")


def ids_of(texts):
    rows = [[vocabulary.index(word) for word in text.split()] for text in texts]
    return keras.utils.pad_sequences(rows, padding="post")


def inputs_of(texts):
    """The words, and where the pronoun is."""
    ids = ids_of(texts)
    return ids, np.isin(ids, ids_of(["it they"])).astype("float32")


embedding = PositionalEmbedding(len(vocabulary), 64)
block = EncoderBlock(num_heads=4, d_ff=128)
words = keras.Input([None], dtype="int32")
model = keras.Model(words, keras.layers.Dense(len(PORTUGUESE))(block(embedding(words))))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.002), loss)
ids, is_pronoun = inputs_of(training)
labels = [PORTUGUESE.index(pronoun) for pronoun in training.values()]
labels = np.repeat(np.array(labels)[:, None], ids.shape[1], axis=1)
model.fit(ids, labels, sample_weight=is_pronoun, batch_size=64, epochs=arguments.epochs, verbose=0)

ids, is_pronoun = inputs_of(test)
found = model.predict(ids, verbose=0)[is_pronoun > 0].argmax(-1)
right = sum(PORTUGUESE[i] == pronoun for i, (pronoun, _) in zip(found, test.values(), strict=True))
print(f"resolved: {right} of {len(test)} pronouns")


def attention(texts):
    """The weights `[texts, heads, words]` from the pronoun."""
    ids, is_pronoun = inputs_of(texts)
    _, scores = block(embedding(ids), return_attention_scores=True)
    return np.einsum("bhqk,bq->bhk", scores["self_attention"], is_pronoun)


weights = attention(test)
nouns = [text.split().index(noun) for text, (_, noun) in test.items()]
on_noun = np.array([row[:, place] for row, place in zip(weights, nouns, strict=True)])
heads = [f"head {i + 1}" for i in range(on_noun.shape[1])]
walk.table("Mean weight from the pronoun to its noun", on_noun.mean(0), None, heads)

found = model.predict(ids_of(EXAMPLES), verbose=0)[inputs_of(EXAMPLES)[1] > 0].argmax(-1)
shown = attention(EXAMPLES)
queries = [is_pronoun.argmax() for is_pronoun in inputs_of(EXAMPLES)[1]]
nouns = [text.split().index(noun) for text, noun in zip(EXAMPLES, ("books", "box"), strict=True)]
best = shown[[0, 1], :, nouns].min(0).argmax()  # The head that finds the noun in both.
figure = Figure(figsize=(draw.WIDTH, 3))
rows = zip(figure.subplots(2, 1), EXAMPLES, shown[:, best], queries, found, strict=True)
for axes, text, weights, query, answer in rows:
    words = text.split()
    print(f"\n{text}\n  “{words[query]}” is “{PORTUGUESE[answer]}”")
    title = f"head {best + 1}: where “{words[query]}” looks"
    walk.table(title, weights[: len(words)], None, words)
    title += f", which is “{PORTUGUESE[answer]}”"
    draw.arcs(axes, words, query, weights[: len(words)], title)
walk.save(figure, arguments.output, "06_one_word.png")
