"""Makes a lower-cased, tokenized corpus of a raw one, as the Multi30k authors publish it.

usage: python examples/multi30k/moses.py RAW OUTPUT [--compare TOKENIZED]

Each `LANG.SPLIT.txt` of the folder RAW is lower-cased, normalized and tokenized with Moses's rules,
by sacremoses (`pip install sacremoses`). With --compare, the lines that differ from another
folder's are counted, and the first ones shown.
"""

import argparse
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--compare", type=Path, metavar="TOKENIZED")
    arguments = parser.parse_args()
    files = sorted(arguments.raw.glob("*.*.txt"))
    if not files:
        parser.error(f"{arguments.raw} has no LANG.SPLIT.txt")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for file in files:
        language = file.name.split(".")[0]
        normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
        tokenized = [  # Moses's script sees the line's end, which some of its rules match.
            tokenizer.tokenize(normalizer.normalize(f"{line.lower()}\n"), return_str=True)
            for line in read(file)
        ]
        text = "".join(f"{line}\n" for line in tokenized)
        (arguments.output / file.name).write_text(text, encoding="utf-8", newline="\n")
        report = f"{file.name}: {len(tokenized):,} lines"
        if arguments.compare:
            published = read(arguments.compare / file.name)
            pairs = [p for p in zip(tokenized, published, strict=True) if p[0] != p[1]]
            report += f", {len(pairs)} unlike {arguments.compare}"
            report += "".join(f"\n  {ours}\n  {theirs}" for ours, theirs in pairs[:3])
        print(report, flush=True)


def read(path):
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


if __name__ == "__main__":
    main()
