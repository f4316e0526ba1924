"""Step 12: alignment, as of step 3, in trained models: which source words a target word looks at.

A recurrent model with additive attention and a Transformer are trained on the same pairs. Nobody
told them which words belong together: they learned it because it helps to predict. The recurrent
model has one attention; for the Transformer it is the mean over the heads of the last block.

`make demo` trains the Transformer. This script trains the recurrent model the first time, which
takes some minutes; if stopped, it resumes where it was.
"""

import numpy as np
import walk
from matplotlib.figure import Figure

import keras_mt
from keras_mt.run_folder import RunFolder

arguments = walk.options(
    __doc__,
    run="runs/pt_en",
    recurrent_run="runs/pt_en_recurrent",
    sentence="Em Dezembro, Lucas irá viajar ao Rio.",
    epochs=6,
)
if not RunFolder(arguments.run).model_file.exists():
    raise SystemExit(
        f"{arguments.run} is not a trained run: train it with `make demo`, or give --run."
    )
if not RunFolder(arguments.recurrent_run).model_file.exists():
    print(f"{arguments.recurrent_run} is not there yet: training a recurrent model takes minutes.")
    keras_mt.training.train(
        "phrasebook", "pt", "en", arguments.recurrent_run, architecture="recurrent",
        model={"num_layers": 1, "d_model": 128}, tokenizer=arguments.run, epochs=arguments.epochs,
        max_length=64, batch_tokens=2048, dropout=0.1, warmup_steps=400, checkpoint_steps=100,
    )  # fmt: skip

aligned = {}
for name, run in {"recurrent": arguments.recurrent_run, "Transformer": arguments.run}.items():
    translator = keras_mt.Translator.load(run)
    source, target, weights = translator.align(arguments.sentence)
    aligned[name] = walk.words(source), walk.words(target), weights
    print(f"\n{name}: {translator(arguments.sentence)}")
    for piece, row in zip(aligned[name][1], weights, strict=True):
        best = np.argsort(-row)[:2]
        looks = ", ".join(f"{aligned[name][0][j]} {row[j]:.2f}" for j in best)
        print(f"  {piece:14} looks at {looks}")

longest = max(len(target) for _, target, _ in aligned.values())
figure = Figure(figsize=(walk.WIDTH, 1.6 + 0.3 * longest))
for axes, (name, (source, target, weights)) in zip(
    figure.subplots(1, 2), aligned.items(), strict=True
):
    image = axes.imshow(weights, vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=50, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_title(name)
    axes.set_xlabel("source, Portuguese")
    axes.xaxis.set_label_position("bottom")
    axes.spines[:].set_visible(False)
figure.axes[0].set_ylabel("target, English")
figure.colorbar(image, ax=figure.axes, label="attention weight", fraction=0.03, pad=0.02)
walk.save(figure, arguments.output, "12_alignment.png")
