"""How good a run on the phrasebook is: its BLEU next to two baselines, and its pictures.

usage: python examples/phrasebook_report.py RUN_DIR
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sacrebleu
from phrasebook import baselines

import keras_mt
from keras_mt.data import phrasebook

SENTENCE = "Em Dezembro, Lucas irá viajar ao Rio."


def main(run_dir):
    run_dir = Path(run_dir)
    translator = keras_mt.Translator.load(run_dir)
    sources, references = zip(*phrasebook.pairs("test"), strict=True)
    systems = {
        "word-for-word dictionary": [baselines.word_for_word(source) for source in sources],
        "nearest training sentence": baselines.nearest(sources, list(phrasebook.pairs("train"))),
        "keras_mt": translator(list(sources)),
    }
    print(f"\nBLEU on {len(sources)} held-out sentences")
    for name, translations in systems.items():
        score = sacrebleu.corpus_bleu(translations, [references]).score
        print(f"  {name:26} {score:5.1f}")

    alignment = translator.align(SENTENCE, translator(SENTENCE))
    keras_mt.plots.plot_alignment(*alignment, run_dir / "attention.png")
    print(f"\npictures: {run_dir / 'training.png'}, {run_dir / 'attention.png'}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
