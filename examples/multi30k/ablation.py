"""How much each part of the recipe gains, in an equally short time.

usage: python examples/multi30k/ablation.py [NAME ...] --data FOLDER --run RUN --output OUTPUT

FOLDER is the tokenized Multi30k, and RUN what `train.sh tiny` made, or is making, from it. Trains
each row for some minutes, start-up included, from the weights of RUN_forward, and measures BLEU on
the validation split, with the weights of the last checkpoint and with the mean of the last 5.
OUTPUT gets the runs, the lines and the table. A row whose line is there is not trained again; one
that was interrupted starts anew.
"""

import contextlib
import functools
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import rows

from keras_mt import Translator
from keras_mt.run_folder import RunFolder
from keras_mt.training.checkpoints import average_run

COMMON = (
    "--preset tiny --batch-tokens 2048 --dtype mixed_bfloat16 --warmup-steps 300 "
    "--learning-rate 0.0015 --epochs 1000 --checkpoint-steps 50 --source en --target de"
)
DIVERSE = "--data {run}_forward_data --data {run}_backward_data"
ROWS = {
    "dropout 0.2": "--dropout 0.2",
    "dropout 0.1": "--dropout 0.1",
    "and subword sampling 0.4": "--dropout 0.1 --subword-sampling 0.4",
    "and translated data": f"--dropout 0.1 {DIVERSE}",
    "and R-Drop 3": "--dropout 0.1 --rdrop-weight 3",
    "and R-Drop 3 and translated data": f"--dropout 0.1 --rdrop-weight 3 {DIVERSE}",
}


def main():
    parser = rows.parser(__doc__, ROWS)
    parser.add_argument("--data", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=4)
    arguments = parser.parse_args()
    names, output = arguments.names, arguments.output
    measure = functools.partial(measured, arguments.data, arguments.run, output, arguments.minutes)
    print(table(rows.measured(output / "ablation.jsonl", ROWS, measure, names)))


def table(lines):
    columns = ["", "steps", "seconds a step", "BLEU", "BLEU of the mean of 5"]
    return rows.table(columns, [
        [name, f"{x['steps']}", f"{x['step_seconds']:.2f}", *(f"{bleu:.1f}" for bleu in x["bleu"])]
        for name, x in lines.items()
    ])  # fmt: skip


def measured(data, init, output, minutes, row):
    folder = output / row.replace(" ", "_")
    shutil.rmtree(folder, ignore_errors=True)
    options = f"{COMMON} --init {{run}}_forward {ROWS[row]}".format(run=init).split()
    command = [sys.executable, "-m", "keras_mt", "train", "--data", data, *options]
    with contextlib.suppress(subprocess.TimeoutExpired):  # Killed: its checkpoints are measured.
        subprocess.run([*command, "--output", folder / "run"], timeout=60 * minutes, check=True)
    log = [line for line in RunFolder(folder / "run").read_log() if line["tokens_per_second"]]
    steps, seconds = (
        [float(line[column]) for line in (log[0], log[-1])] for column in ("step", "seconds")
    )
    pairs, bleu = rows.texts(data, "en", "de", "validation"), []
    for last in (1, 5):
        run = average_run(folder / "run", folder / f"last_{last}", last)
        bleu.append(rows.scores(Translator.load(run, beam_size=5), pairs, "none")["bleu"])
    step_seconds = (seconds[1] - seconds[0]) / (steps[1] - steps[0])
    return {"steps": int(steps[1]), "step_seconds": step_seconds, "bleu": bleu}


if __name__ == "__main__":
    main()
