"""Draws the learning rate of the warm-up schedule for the presets tiny, base and big.

usage: python examples/plot_schedule.py PICTURE
"""

import sys

import numpy as np
from matplotlib.figure import Figure

from keras_mt import WarmupInverseSquareRoot


def main(path):
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots()
    steps = np.arange(0, 20_000, 20)
    for preset, d_model, warmup_steps in (
        ("tiny", 128, 4000),
        ("base", 512, 4000),
        ("big", 1024, 4000),
    ):
        label = f"{preset}: d_model {d_model}, warmup_steps {warmup_steps:,}"
        axes.plot(steps, WarmupInverseSquareRoot(d_model, warmup_steps)(steps), label=label)
    axes.set_xlabel("step")
    axes.set_ylabel("learning rate")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    axes.set_xlim(0, 20_000)
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
