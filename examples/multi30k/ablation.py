"""What each part of the recipe is worth, at an equal short budget of time.

usage: python examples/multi30k/ablation.py FOLDER OUTPUT [--minutes M]

FOLDER is the tokenized Multi30k. Trains each variant for so many minutes, start-up included, and
measures BLEU on the validation split, with the weights of the last checkpoint and with the mean of
the last 5. Prints a Markdown table, and writes it to OUTPUT/ablation.md; a variant whose result is
there is not trained again.
"""

import argparse
import contextlib
import csv
import json
import subprocess
import sys
from pathlib import Path

COMMON = (
    "--source en --target de --preset tiny --dropout 0.3 --warmup-steps 2000 "
    "--learning-rate 0.003 --epochs 1000 --checkpoint-steps 100"
)
FLOAT32 = "--vocab-size 10000 --batch-tokens 4096"
SMALL = "--vocab-size 4000 --batch-tokens 2048"
HALF = f"{SMALL} --dtype mixed_bfloat16"
VARIANTS = {
    "10,000 pieces, batches of 4,096 tokens, float32": FLOAT32,
    "4,000 pieces, batches of 2,048 tokens": SMALL,
    "and products in bfloat16": HALF,
    "and subword sampling 0.4": f"{HALF} --subword-sampling 0.4",
    "and R-Drop 5 instead": f"{HALF} --rdrop 5",
    "and both": f"{HALF} --subword-sampling 0.4 --rdrop 5",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=15)
    arguments = parser.parse_args()
    rows = [
        "| | steps | seconds a step | BLEU | BLEU of the mean of 5 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for number, (name, options) in enumerate(VARIANTS.items()):
        folder = arguments.output / f"{number}"
        result = folder / "result.json"
        if not result.exists():
            values = measure(arguments.folder, folder, options.split(), arguments.minutes)
            result.write_text(json.dumps(values))
        values = json.loads(result.read_text())
        rows.append(
            f"| {name} | {values['steps']} | {values['step_seconds']:.2f} "
            f"| {values['bleu'][0]:.1f} | {values['bleu'][1]:.1f} |"
        )
        print(rows[-1], flush=True)
    table = "\n".join(rows) + "\n"
    (arguments.output / "ablation.md").write_text(table)
    print(table)


def measure(corpus, folder, options, minutes):
    run, command = folder / "run", [sys.executable, "-m", "keras_mt"]
    train = ["train", "--data", corpus, "--output", run, *COMMON.split(), *options]
    with contextlib.suppress(subprocess.TimeoutExpired):  # Killed: what it has kept is measured.
        subprocess.run([*command, *train], timeout=60 * minutes, check=True)
    with open(run / "log.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tokens_per_second"]]
    bleu = []
    for last in (1, 5):
        averaged = folder / f"last_{last}"
        subprocess.run([*command, "average", run, averaged, "--last", str(last)], check=True)
        evaluate = ["evaluate", averaged, "--data", corpus, "--source", "en", "--target", "de"]
        out = subprocess.run(
            [*command, *evaluate, "--split", "validation", "--tokenize", "none"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        bleu.append(json.loads(out.splitlines()[-1])["bleu"])
    first, last = rows[0], rows[-1]
    seconds = float(last["seconds"]) - float(first["seconds"])
    steps = int(last["step"]) - int(first["step"])
    return {"steps": int(last["step"]), "step_seconds": seconds / steps, "bleu": bleu}


if __name__ == "__main__":
    main()
