"""The alignment error rate (AER) on pairs of the phrasebook that were aligned by hand.

usage: python examples/alignment/error_rate.py RUN_DIR

`by_hand` has 150 pairs of the test split, drawn at random, with their sure links (`0-0`) and
possible ones (`0p0`) of words, which white space separates. A link is possible where a small word
has no other side of its own: articles before possessives (`O filho dela`, `Her son`), `de` and the
`'s` of a name, auxiliaries (`did` and the verb), prepositions that belong to a verb, `dia` and `de`
of a date, pronouns that Portuguese leaves out. They are compared with the links of

- `keras_mt.alignment.Aligner`, learned from the training split, of words and of the run's pieces;
- the run's attention, as `keras-mt align --pharaoh` takes it, and that of each of its decoder's
  heads: each target word's link is to the source word that it attends to most.
"""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import rows
import tensorflow as tf

import keras_mt
from keras_mt.alignment import Aligner
from keras_mt.alignment.links import attention_links
from keras_mt.text.words import words_of_pieces

BY_HAND = Path(__file__).parent / "by_hand"


def main(run_dir):
    pairs = rows.texts(BY_HAND, "pt", "en", "test")
    training, texts = rows.texts("phrasebook", "pt", "en", "train"), [*zip(*pairs, strict=True)]
    by_hand = links_by_hand("-"), links_by_hand("-p")
    translator = keras_mt.Translator.load(run_dir)
    tokenizer, model = translator.tokenizer, translator.models[0]
    print(f"AER of {len(pairs)} pairs, in percent")

    def report(name, links):
        print(f"{100 * alignment_error_rate(links, *by_hand):5.1f}  {name}", flush=True)

    vocabularies = {}, {}
    ids, test = (map(word_ids, zip(*each, strict=True), vocabularies) for each in (training, pairs))
    report("aligner, of words", Aligner.learn(*ids).align(*test))

    def piece_ids(sides):
        sources, targets = (tf.constant(side) for side in zip(*sides, strict=True))
        sources, targets = tokenizer.pieces(sources), tokenizer.target_pieces(targets)
        return [[np.array(row) for row in side.to_list()] for side in (sources, targets)]

    def words_of(text, ids):
        """The word of each piece of a text."""
        pieces = [piece.decode() for piece in tokenizer.id_to_string(tf.constant(ids)).numpy()]
        return words_of_pieces(text.split(), [*pieces, "</s>"])[:-1]

    test = piece_ids(pairs)
    words = [list(map(words_of, *side)) for side in zip(texts, test, strict=True)]
    links = Aligner.learn(*piece_ids(training)).align(*test)
    report("aligner, of pieces", list(map(word_links, links, *words)))
    report("attention of the run", translator.align_words(*map(list, texts)))

    heads = [model_attention(model, tokenizer, *ids) for ids in zip(*test, strict=True)]
    rates = {}
    for layer, head in np.ndindex(heads[0].shape[:2]):
        found = [
            attention_links(each[layer, head], *two)
            for each, *two in zip(heads, *words, strict=True)
        ]
        rates[layer, head] = alignment_error_rate(found, *by_hand)
    best = min(rates, key=rates.get)
    for (layer, head), rate in rates.items():
        mark = ", the best" if (layer, head) == best else ""
        print(f"{100 * rate:5.1f}  layer {layer}, head {head}{mark}")


def word_links(links, source_words, target_words):
    """The links of words `[links, 2]`, from those of their pieces.

    `source_words` and `target_words` have the word of each piece; -1 for none.
    """
    links = np.asarray(links, np.int32).reshape(-1, 2)
    found = np.stack([source_words[links[:, 0]], target_words[links[:, 1]]], axis=1)
    return np.unique(found[(found >= 0).all(axis=1)], axis=0)


def alignment_error_rate(links, sure, possible):
    """The alignment error rate of links A against links by hand, sure S and possible P.

    Summed over all sentence pairs, where P holds S too (Och and Ney 2003, A Systematic Comparison
    of Various Statistical Alignment Models, https://aclanthology.org/J03-1002):

        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

    Each is a list with integers `[links, 2]` for each pair.
    """
    right = total = 0
    for triple in zip(links, sure, possible, strict=True):
        a, s, p = ({tuple(map(int, link)) for link in each} for each in triple)
        right += len(a & s) + len(a & (p | s))
        total += len(a) + len(s)
    return 1 - right / total


def links_by_hand(kinds):
    """The links of each pair: `"-"` for the sure ones, `"-p"` for the possible ones too."""
    lines = (BY_HAND / "links.pharaoh").read_text(encoding="utf-8").splitlines()
    pattern = re.compile(rf"(\d+)[{kinds}](\d+)")
    return [[(int(i), int(j)) for i, j in pattern.findall(line)] for line in lines]


def word_ids(texts, known):
    """Ids of the words of texts, in lower case and without punctuation; new ones are added."""
    words = [[word.strip(".,?!") for word in text.lower().split()] for text in texts]
    return [np.array([known.setdefault(word, len(known)) for word in row]) for row in words]


def model_attention(model, tokenizer, source, target):
    """The attention of each decoder layer's heads, `[layers, heads, target, source]`."""
    source = np.array([[*source, tokenizer.eos_id]])
    target = np.array([[tokenizer.bos_id, *target[:-1]]])
    scores = model.attention_scores(source, target)["cross"]
    return np.stack([layer[0] for layer in scores])[..., :-1]  # Without the end.


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
