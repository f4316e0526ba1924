"""Step 12: alignment, as of step 3, in trained models: which source words a target word looks at.

A recurrent model with additive attention and a Transformer are trained on the same pairs. Nobody
told them which words belong together: they learned it because it helps to predict. The recurrent
model has one attention; for the Transformer it is the mean over the heads of the last block.

`make demo` trains the Transformer. This script trains the recurrent model the first time, which
takes some minutes; if stopped, it resumes where it was.
"""

import draw
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
walk.trained(arguments.run)
if not RunFolder(arguments.recurrent_run).model_file.exists():
    print(f"{arguments.recurrent_run} is not there yet: training a recurrent model takes minutes.")
    keras_mt.training.train(
        "phrasebook", "pt", "en", arguments.recurrent_run, architecture="recurrent",
        model={"num_layers": 1, "d_model": 128}, tokenizer=arguments.run, epochs=arguments.epochs,
        max_length=64, batch_tokens=2048, dropout=0.1, warmup_steps=400, checkpoint_steps=100,
    )  # fmt: skip

figure = Figure(figsize=(draw.WIDTH, 4.2))
runs = {"recurrent": arguments.recurrent_run, "Transformer": arguments.run}
for axes, (name, run) in zip(figure.subplots(1, 2), runs.items(), strict=True):
    translator, _ = walk.trained(run)
    source, target, weights = translator.align(arguments.sentence)
    (source, in_source), (target, in_target) = walk.by_word(source), walk.by_word(target)
    # What a word looks at: the mean of its pieces, and all pieces of each word of the source.
    weights = in_target / in_target.sum(1, keepdims=True) @ weights @ in_source.T
    print(f"\n{name}: {translator(arguments.sentence)}")
    for word, row in zip(target, weights, strict=True):
        best = np.argsort(-row)[:2]
        print(f"  {word:14} looks at {', '.join(f'{source[j]} {row[j]:.2f}' for j in best)}")
    image = draw.heat(axes, weights, target, source, name, None)
    draw.turn(axes)
    axes.set_xlabel("source, Portuguese")
figure.axes[0].set_ylabel("target, English")
figure.colorbar(image, ax=figure.axes, label="attention weight", fraction=0.03, pad=0.02)
walk.save(figure, arguments.output, "12_alignment.png")
