"""How much a confidence tells: its correlation with sentence chrF on a run's translations.

usage: python benchmarks/confidence.py RUN_DIR DATA SOURCE TARGET [SPLIT]

Prints the rank correlation of mean and worst log-probability with sentence chrF, the mean chrF of
each quarter of the sentences by mean log-probability, what is doubted, the scores of looping
translations after they are made again, and how many human translations, of the training split,
would be doubted.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import sacrebleu
import tensorflow as tf

import keras_mt
from keras_mt.data import load_corpus
from keras_mt.inference.confidence import doubts


def rank_correlation(a, b):
    """Spearman's; ties in their order."""
    return np.corrcoef(*(np.argsort(np.argsort(x, kind="stable")) for x in (a, b)))[0, 1]


def load(data, source, target, split):
    pairs = load_corpus(data, source, target, split).as_numpy_iterator()
    return zip(*([text.decode() for text in pair] for pair in pairs), strict=True)


def doubted(tokenizer, *sides):
    """How many targets of given pairs loop, and how many pairs are out of proportion in length."""
    sides = [tokenizer.pieces(tf.constant(side)) for side in sides]
    return [int(tf.math.count_nonzero(x)) for x in doubts(*sides, tokenizer.eos_id).values()]


def main(run_dir, data, source, target, split="test"):
    sources, references = load(data, source, target, split)
    translator = keras_mt.Translator.load(run_dir)
    human = list(load(data, source, target, "train"))
    loops, lengths = doubted(translator.tokenizer, *human)
    print(f"of {len(human[0]):,} translations by people: loop {loops}, length {lengths}")
    found = [hypotheses[0] for hypotheses in translator.hypotheses(sources, confidence=True)]
    again = translator.with_options(no_repeat_ngram_size=3)
    metric, bleu = sacrebleu.CHRF(), sacrebleu.BLEU()

    def score(texts, numbers):
        return np.array([metric.sentence_score(t, [references[i]]).score for t, i in
                         zip(texts, numbers, strict=True)])  # fmt: skip

    texts, everything = [h.text for h in found], range(len(found))
    chrf = score(texts, everything)
    means = np.array([h.mean_log_prob for h in found])
    worst = np.array([h.worst_token[1] if h.worst_token else 0.0 for h in found])
    print(f"{len(found):,} sentences, BLEU {bleu.corpus_score(texts, [references]).score:.1f}, "
          f"mean sentence chrF {chrf.mean():.1f}")  # fmt: skip
    print(f"rank correlation with sentence chrF: mean {rank_correlation(means, chrf):.2f}, "
          f"worst token {rank_correlation(worst, chrf):.2f}")  # fmt: skip
    quarters = np.array_split(np.argsort(means), 4)
    shown = ", ".join(f"{chrf[quarter].mean():.1f}" for quarter in quarters)
    print(f"mean chrF of each quarter, the least sure first: {shown}")
    for doubt in ("loop", "length"):
        numbers = [i for i in everything if doubt in found[i].warnings]
        rest = np.delete(chrf, numbers)
        shown = f", mean chrF {chrf[numbers].mean():.1f}, of the rest {rest.mean():.1f}"
        print(f"{doubt}: {len(numbers)} doubted{shown if numbers else ''}")
    numbers = [i for i in everything if "loop" in found[i].warnings]
    if numbers:
        new = again([sources[i] for i in numbers])
        changed = dict(zip(numbers, new, strict=True))
        after = bleu.corpus_score([changed.get(i, texts[i]) for i in everything], [references])
        print(f"loops translated again: mean chrF {score(new, numbers).mean():.1f}, "
              f"BLEU of all {after.score:.1f}")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
