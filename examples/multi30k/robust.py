"""BLEU on a test set as users type it: in capitals, in title case, with other punctuation.

usage: python examples/multi30k/robust.py RUN_DIR_OR_SAVED_MODEL DATA [--source en] [--target de]
           [--split test] [--tokenize 13a] [--beam-size 5]

The references stay as they are. For each change it prints BLEU of the whole split, the number of
sentences that it changes, and BLEU of these alone, from the plain and from the changed sources.
The last line is a JSON object. The changes are made here, not by `keras-mt train --augment`.
"""

import itertools
import json
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import rows
import sacrebleu

from keras_mt import ExportedTranslator, Translator
from keras_mt.files import is_run


def capitals(text):
    """All in capitals, but for entities, such as `&apos;`, that begin a word."""
    parts = re.split(r"(?<![^ ])(&[^ ;]*;)", text)
    return "".join(part if i % 2 else part.upper() for i, part in enumerate(parts))


def title_case(text):
    """Each word with a capital first letter, but for those that begin with an entity or a `'`."""
    return re.sub(r"(?<![^ ])(?!['&])[^ ]*?[^\W\d_]", lambda start: start[0].upper(), text)


def typographic_quotes(text):
    text = text.replace("&apos;", "'").replace("&quot;", '"')
    if "' " in text:  # Else all are apostrophes.
        text = re.sub("""(?<![^ "(])'""", "‘", text)
    marks = itertools.cycle("“”")
    return re.sub('"', lambda _: next(marks), text.replace("'", "’"))


CHANGES = {
    "plain": str,
    "capitals": capitals,
    "title case": title_case,
    "no final point": lambda text: text.rstrip().removesuffix(".").rstrip(),
    "doubled spaces": lambda text: text.replace(" ", "  "),
    "typographic quotes": typographic_quotes,
}


def main():
    parser = rows.parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--split", default="test")
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--beam-size", type=int, help="for a run folder; an export has its own")
    given = parser.parse_args()
    pairs = rows.texts(given.data, given.source, given.target, given.split)
    sources, references = map(list, zip(*pairs, strict=True))
    if is_run(given.model):
        options = {"beam_size": given.beam_size} if given.beam_size else {}
        translator = Translator.load(given.model, **options)
    else:
        translator = ExportedTranslator(given.model)
    metric = sacrebleu.BLEU(tokenize=given.tokenize)

    def bleu(texts, chosen):
        if not chosen:
            return None
        texts, truth = [texts[i] for i in chosen], [references[i] for i in chosen]
        return round(metric.corpus_score(texts, [truth]).score, 1)

    everything = range(len(sources))
    plain, results = translator(sources), {}
    for name, change in CHANGES.items():
        typed = list(map(change, sources))
        changed = [i for i in everything if typed[i] != sources[i]]
        found = list(plain)
        for i, translation in zip(changed, translator([typed[i] for i in changed]), strict=True):
            found[i] = translation
        row = bleu(found, everything), len(changed), bleu(plain, changed), bleu(found, changed)
        results[name] = dict(zip(("bleu", "changed", "plain", "typed"), row, strict=True))
    columns = ["sources", "BLEU", "changed", "BLEU of these, plain", "changed"]
    cells = (["" if x is None else str(x) for x in row.values()] for row in results.values())
    print(rows.table(columns, [[name, *row] for name, row in zip(results, cells, strict=True)]))
    print(json.dumps({"signature": str(metric.get_signature()), "results": results}))


if __name__ == "__main__":
    main()
