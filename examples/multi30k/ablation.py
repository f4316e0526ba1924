"""How much each part of the recipe gains, in an equally short time.

usage: python examples/multi30k/ablation.py FOLDER RUN OUTPUT [--minutes M]

FOLDER is the tokenized Multi30k, and RUN what train.sh made, or is making, from it. Trains each
variant for M minutes, start-up included, from the weights of RUN_forward, and measures BLEU on the
validation split, with the weights of the last checkpoint and with the mean of the last 5. Prints a
Markdown table, and writes it to OUTPUT/ablation.md. A variant whose result is there is not trained
again; one that was interrupted starts anew.
"""

import argparse
import contextlib
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

from keras_mt.files import atomic_write

COMMON = (
    "--preset tiny --batch-tokens 2048 --dtype mixed_bfloat16 --warmup-steps 300 "
    "--learning-rate 0.0015 --epochs 1000 --checkpoint-steps 50"
)
LANGUAGES = ["--source", "en", "--target", "de"]
DIVERSE = "--data {run}_forward_data --data {run}_backward_data"
VARIANTS = {
    "dropout 0.2": "--dropout 0.2",
    "dropout 0.1": "--dropout 0.1",
    "and subword sampling 0.4": "--dropout 0.1 --subword-sampling 0.4",
    "and translated data": f"--dropout 0.1 {DIVERSE}",
    "and R-Drop 3": "--dropout 0.1 --rdrop-weight 3",
    "and R-Drop 3 and translated data": f"--dropout 0.1 --rdrop-weight 3 {DIVERSE}",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("run")
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=4)
    arguments = parser.parse_args()
    rows = [
        "| | steps | seconds a step | BLEU | BLEU of the mean of 5 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for number, (name, options) in enumerate(VARIANTS.items()):
        folder = arguments.output / f"{number}"
        result = folder / "result.json"
        if not result.exists():
            shutil.rmtree(folder, ignore_errors=True)
            chosen = f"--init {{run}}_forward {options}".format(run=arguments.run).split()
            values = measure(arguments.folder, folder, chosen, arguments.minutes)
            with atomic_write(result) as temporary:
                temporary.write_text(json.dumps(values))
        values = json.loads(result.read_text())
        rows.append(
            f"| {name} | {values['steps']} | {values['step_seconds']:.2f} "
            f"| {values['bleu'][0]:.1f} | {values['bleu'][1]:.1f} |"
        )
        print(rows[-1], flush=True)
    (arguments.output / "ablation.md").write_text("\n".join(rows) + "\n")


def measure(corpus, folder, options, minutes):
    run, command = folder / "run", [sys.executable, "-m", "keras_mt"]
    train = ["train", "--data", corpus, *LANGUAGES, "--output", run, *COMMON.split(), *options]
    with contextlib.suppress(subprocess.TimeoutExpired):  # Killed: its checkpoints are measured.
        subprocess.run([*command, *train], timeout=60 * minutes, check=True)
    with open(run / "log.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tokens_per_second"]]
    bleu = []
    for last in (1, 5):
        averaged = folder / f"last_{last}"
        subprocess.run([*command, "average", run, averaged, "--last", str(last)], check=True)
        evaluate = ["evaluate", averaged, "--data", corpus, *LANGUAGES, "--split", "validation"]
        out = subprocess.run(
            [*command, *evaluate, "--tokenize", "none", "--beam-size", "5"],
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
