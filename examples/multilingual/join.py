"""A corpus of two languages from two corpora that share a third.

usage: python examples/multilingual/join.py FIRST SECOND OUTPUT --languages DE EN FR

FIRST holds pairs of DE and EN, SECOND of EN and FR; DE, EN and FR stand for their codes. Where a
line of EN is in both, its translations become a pair of DE and FR. If it occurs more than once, the
first occurrence in SECOND counts. OUTPUT is a new folder of LANG.SPLIT.txt files, for the splits
train, validation and test as far as both corpora have them.
"""

import argparse

from keras_mt.data import load_corpus
from keras_mt.data.corpus import has_split
from keras_mt.files import check_new, new_folder


def joined(first, second, languages, split):
    """The pairs of the outer languages, lists of bytes."""
    source, shared, target = languages
    translations = {}
    for text, translation in load_corpus(second, shared, target, split).as_numpy_iterator():
        translations.setdefault(text, translation)
    pairs = load_corpus(first, source, shared, split).as_numpy_iterator()
    return [(text, translations[key]) for text, key in pairs if key in translations]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("output")
    parser.add_argument("--languages", nargs=3, required=True, metavar=("DE", "EN", "FR"))
    arguments = parser.parse_args()
    source, shared, target = arguments.languages
    check_new(arguments.output)
    with new_folder(arguments.output) as folder:
        for split in ("train", "validation", "test"):
            in_first = has_split(arguments.first, source, shared, split)
            if not (in_first and has_split(arguments.second, shared, target, split)):
                continue
            pairs = joined(arguments.first, arguments.second, arguments.languages, split)
            if not pairs:
                raise SystemExit(f"The splits {split} have no line of {shared} in common.")
            for i, code in enumerate((source, target)):
                side = [pair[i] for pair in pairs]
                (folder / f"{code}.{split}.txt").write_bytes(b"\n".join(side) + b"\n")
            print(f"{split}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
