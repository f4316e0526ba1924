"""Step 6, a closer look: a pronoun, and the noun that it stands for.

In "The books are behind the box and the cup, and they are new." it is the books that are new, and
in "The books are behind the box and the cups, and it is new." the box. Who translates this into
Portuguese has to know, as a pronoun has the gender of its noun: "eles" stands for "os livros",
"ela" for "a caixa". This script makes a corpus of such sentences with the phrasebook's words,
always with one noun of the pronoun's number among three. It trains a small Transformer (one to two
minutes; if stopped, it resumes), and measures on other sentences how often the pronoun is right,
and how much of its weight each encoder head puts, from the pronoun, on the noun. The picture shows
the two heads that put most there.

    python examples/lectures/06_one_word.py --run runs/pronouns
"""

import random
from pathlib import Path

import numpy as np
import tensorflow as tf
import walk
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from phrasebook import grammar, lexicon
from phrasebook.morphology import agree, attach

import keras_mt
from keras_mt.run_folder import RunFolder

CLASSES = ("text", "object", "furniture", "tableware", "wear", "vehicle")
ADJECTIVES = ("novo", "velho", "bonito", "caro", "barato", "preto", "branco", "vermelho")
EXAMPLES = {
    "The books are behind the box and the cup, and they are new.": "they",
    "The books are behind the box and the cups, and it is new.": "it",
}


def sentences(count):
    """For each English sentence the Portuguese one, the noun and its pronoun, and whether that
    tells which noun is meant: not if all three have one gender."""
    rng, found = random.Random(1), {}
    nouns = {noun.pt: noun for name in CLASSES for noun in grammar.BY_CLASS[name]}
    nouns = [noun for noun in nouns.values() if not {" ", "-"} & {*noun.en}]
    adjectives = [each for each in lexicon.ADJECTIVES if each.pt in ADJECTIVES]
    while len(found) < count:
        is_plural, place = rng.random() < 0.5, rng.randrange(3)
        three = [
            grammar.with_determiner(rng, "the", grammar.bare(noun, is_plural == (i == place)))
            for i, noun in enumerate(rng.sample(nouns, 3))
        ]
        (a, b, c), noun = three, three[place]
        adjective, (pt, en) = rng.choice(adjectives), rng.choice(lexicon.POSITIONS)
        pronoun = {"m": "ele", "f": "ela"}[noun.gender] + "s" * is_plural
        it = "they" if is_plural else "it"
        english = f"{a.en} {'are' if a.plural else 'is'} {en} {b.en} and {c.en}, and {it}"
        english += f" {'are' if is_plural else 'is'} {adjective.en}."
        portuguese = f"{a.pt} {'estão' if a.plural else 'está'} {attach(pt, b.pt)}"
        portuguese += f" e {attach('de', c.pt)}, e {pronoun} {'são' if is_plural else 'é'}"
        portuguese += f" {agree(adjective.pt, noun.gender, is_plural)}."
        english, portuguese = (text[0].upper() + text[1:] for text in (english, portuguese))
        tells = len({each.gender for each in three}) > 1
        found[english] = portuguese, noun.en.removeprefix("the "), it, tells
    return [(text, *row) for text, row in found.items() if text not in EXAMPLES]


def attention(model, tokenizer, texts, pronouns):
    """For each text its words, and the weights `[layers, heads, words]` from its pronoun."""
    ids = tokenizer.source_ids(tokenizer.pieces(tf.constant(texts)))
    start = tf.fill([len(texts), 1], tokenizer.bos_id)
    scores = model.attention_scores(ids.to_tensor(tokenizer.padding_id), start)["encoder"]
    for row, weights, it in zip(ids, np.stack(scores, axis=1), pronouns, strict=True):
        pieces = [piece.decode() for piece in tokenizer.id_to_string(row).numpy()]
        starts = [i for i, x in enumerate(pieces) if x[0] == "▁" or x in (",", ".", "</s>")]
        words = ["".join(part).lstrip("▁") for part in np.split(pieces, starts[1:])]
        of_words = np.add.reduceat(weights[..., : len(pieces)], starts, axis=-1)
        yield words, of_words[:, :, starts[words.index(it)]]


def arcs(axes, words, query, weights, title):
    """Lines from a word to all, as thick as their weights, and a ring for its own."""
    reach, angle = max(query, len(words) - 1 - query), np.linspace(0, np.pi, 60)
    for j, (word, weight) in enumerate(zip(words, weights, strict=True)):
        color = walk.RED if j == query else walk.INK
        walk.label(axes, j, -0.2, word, color=color)
        if weight >= 0.05:
            walk.label(axes, j, -0.5, f"{weight:.2f}", fontsize=8.5, color=walk.GREY)
        if j == query:
            x, y = query + 0.16 * np.cos(2 * angle), 0.16 + 0.16 * np.sin(2 * angle)
        else:
            radius = (j - query) / 2
            x = query + radius - radius * np.cos(angle)
            y = (0.25 + 0.75 * abs(j - query) / reach) * np.sin(angle)
        axes.plot(x, y, color=walk.BLUE, linewidth=LINE * weight, solid_capstyle="butt")
    axes.set_title(title, loc="left", color=walk.GREY, fontsize=9.5)
    axes.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.65, 1.08))
    axes.set_axis_off()


LINE = 9  # The width of a line of weight 1.
arguments = walk.options(__doc__, run="runs/pronouns", epochs=8)
rows = sentences(7000)
training, test = rows[:6000], [row for row in rows[6000:] if row[-1]]
if not RunFolder(arguments.run).is_finished:
    corpus = Path(f"{arguments.run}.tsv")
    corpus.parent.mkdir(parents=True, exist_ok=True)
    corpus.write_text("en\tpt\n" + "".join(f"{row[0]}\t{row[1]}\n" for row in training))
    keras_mt.training.train(
        corpus, "en", "pt", arguments.run, epochs=arguments.epochs,
        model={"num_encoder_layers": 2, "num_decoder_layers": 1, "d_model": 64, "num_heads": 4,
               "d_ff": 128, "pre_norm": True},
        vocab_size=500, max_length=64, batch_tokens=1024, dropout=0.1, warmup_steps=200,
        learning_rate=0.004, label_smoothing=0.0,
    )  # fmt: skip
translator = keras_mt.Translator.load(arguments.run)
(model,), tokenizer = translator.models, translator.tokenizer


def pronoun(text):
    return {"ele", "ela", "eles", "elas"} & {*text.split()}


translations = translator([row[0] for row in test])
right = [pronoun(x) == pronoun(row[1]) for x, row in zip(translations, test, strict=True)]
print(f"\nresolved: {sum(right)} of {len(right)} pronouns")
for text, translation in zip(EXAMPLES, translator(EXAMPLES), strict=True):
    print(f"  {text}\n  {translation}")

sample = test[:200]
texts, _, nouns, pronouns, _ = zip(*sample, strict=True)
found = attention(model, tokenizer, texts, pronouns)
on_noun = [w[..., words.index(noun)] for (words, w), noun in zip(found, nouns, strict=True)]
on_noun = np.mean(on_noun, axis=0)
rows, columns = (
    [f"{name} {i + 1}" for i in range(n)]
    for name, n in zip(("layer", "head"), on_noun.shape, strict=True)
)
walk.table(f"Mean weight from the pronoun to its noun, {len(sample)} of these sentences",
           on_noun, rows, columns)  # fmt: skip

best = [np.unravel_index(place, on_noun.shape) for place in np.argsort(-on_noun, axis=None)[:2]]
figure = Figure(figsize=(walk.WIDTH, 5.6))
panels = iter(figure.subplots(4, 1))
found = attention(model, tokenizer, list(EXAMPLES), EXAMPLES.values())
for (words, weights), it in zip(found, EXAMPLES.values(), strict=True):
    for head in sorted(best):
        title = f"layer {head[0] + 1}, head {head[1] + 1}"
        walk.table(f"{title}: where “{it}” looks", weights[head], None, words)
        arcs(next(panels), words, words.index(it), weights[head], title)
lines = [Line2D([], [], color=walk.BLUE, linewidth=LINE * weight) for weight in (0.1, 0.5, 1)]
figure.legend(lines, ("weight 0.1", "0.5", "1"), loc="outside lower center", ncols=3)
walk.save(figure, arguments.output, "06_one_word.png")
