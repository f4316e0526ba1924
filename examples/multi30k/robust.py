"""BLEU on a test set as users type it: in capitals, in title case, with other punctuation.

usage: python examples/multi30k/robust.py RUN_DIR_OR_SAVED_MODEL DATA [--source en] [--target de]
           [--split test] [--tokenize 13a] [--beam-size 5]

The references stay as they are. For each change it prints BLEU of the whole split, the number of
sentences that it changes, and BLEU of these alone, from the plain and from the changed sources.
The last line is a JSON object. The changes are made here, not by `keras-mt train --augment`.
"""

import argparse
import json

import sacrebleu

from keras_mt import ExportedTranslator
from keras_mt.data import load_corpus
from keras_mt.files import is_run
from keras_mt.translation import Translator


def capitals(text):
    return " ".join(name + mark + rest.upper() for name, mark, rest in map(entity, text.split(" ")))


def title_case(text):
    return " ".join(word if word[:1] in ("'", "&") else titled(word) for word in text.split(" "))


def titled(word):
    first = next((i for i, character in enumerate(word) if character.isalpha()), 0)
    return word[:first] + word[first : first + 1].upper() + word[first + 1 :]


def entity(word):
    """A word's leading entity, such as `&apos;`, and the rest."""
    name, mark, rest = word.partition(";")
    return (name, mark, rest) if mark and name.startswith("&") else ("", "", word)


def no_final_point(text):
    return text.rstrip().removesuffix(".").rstrip()


def doubled_spaces(text):
    return "  ".join(text.split(" "))


def typographic_quotes(text):
    text = text.replace("&apos;", "'").replace("&quot;", '"')
    marks = {'"': 0}
    typed = []
    for before, mark in zip(" " + text, text, strict=False):
        if mark == '"':
            typed.append("“”"[marks[mark] % 2])
            marks[mark] += 1
        elif mark == "'":
            typed.append("‘" if before in ' "(' and "' " in text else "’")
        else:
            typed.append(mark)
    return "".join(typed)


CHANGES = {
    "plain": str,
    "capitals": capitals,
    "title case": title_case,
    "no final point": no_final_point,
    "doubled spaces": doubled_spaces,
    "typographic quotes": typographic_quotes,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--split", default="test")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--beam-size", type=int, help="For a run folder; an export has its own.")
    arguments = parser.parse_args()
    pairs = load_corpus(arguments.data, arguments.source, arguments.target, arguments.split)
    pairs = [[text.decode() for text in pair] for pair in pairs.as_numpy_iterator()]
    sources, references = map(list, zip(*pairs, strict=True))
    if is_run(arguments.model):
        options = {"beam_size": arguments.beam_size} if arguments.beam_size else {}
        translator = Translator.load(arguments.model, **options)
    else:
        translator = ExportedTranslator(arguments.model)
    metric = sacrebleu.BLEU(tokenize=arguments.tokenize)

    def bleu(texts, chosen):
        if not chosen:
            return None
        texts, truth = [texts[i] for i in chosen], [references[i] for i in chosen]
        return round(metric.corpus_score(texts, [truth]).score, 1)

    everything = range(len(sources))
    plain, results = translator(sources), {}
    print("| sources | BLEU | changed | BLEU of these, plain | changed |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for name, change in CHANGES.items():
        typed = list(map(change, sources))
        changed = [i for i in everything if typed[i] != sources[i]]
        found = list(plain)
        for i, translation in zip(changed, translator([typed[i] for i in changed]), strict=True):
            found[i] = translation
        row = bleu(found, everything), len(changed), bleu(plain, changed), bleu(found, changed)
        print(
            f"| {name} | " + " | ".join("" if x is None else str(x) for x in row) + " |", flush=True
        )
        results[name] = dict(zip(("bleu", "changed", "plain", "typed"), row, strict=True))
    print(json.dumps({"signature": str(metric.get_signature()), "results": results}))


if __name__ == "__main__":
    main()
