"""Whether transformers gives of a folder that keras_mt wrote what keras_mt gives of its run.

usage: python check_transformers.py FOLDER SOURCES TRANSLATIONS

Needs torch, transformers and sentencepiece, in an environment of their own. TRANSLATIONS are what
`keras-mt translate RUN_DIR --no-split-sentences < SOURCES` wrote.
"""

import sys
from pathlib import Path

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer


def main(folder, sources, translations):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sources, expected = (
        Path(file).read_text(encoding="utf-8").split("\n")[:-1] for file in (sources, translations)
    )
    found = []
    for start in range(0, len(sources), 50):
        inputs = tokenizer(sources[start : start + 50], return_tensors="pt", padding=True)
        found += tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    for one, other in zip(found, expected, strict=True):
        if one != other:
            print(f"{one!r} is {other!r} in keras_mt.")
    print(f"{same} of {len(expected)} lines are the same.")


if __name__ == "__main__":
    main(*sys.argv[1:])
