"""Step 1: the task. A corpus is pairs of sentences; the model is a function from one to the other.

The task is to learn `p(y | x)`: how probable a sentence y of one language is as the translation
of a sentence x of another. Words change their order, their number and, depending on the words
around them, their meaning, so looking each of them up in a dictionary is not enough.
"""

import draw
import walk
from matplotlib.figure import Figure
from phrasebook import baselines

from keras_mt.data import phrasebook

ENGLISH = "Lucas is travelling to Rio in December ."
ORDERS = {  # Which English words each Portuguese word goes with.
    "Lucas irá viajar ao Rio em Dezembro .": [[0], [1], [2], [3], [4], [5], [6], [7]],
    "Em Dezembro , Lucas irá viajar ao Rio .": [[5], [6], [], [0], [1], [2], [3], [4], [7]],
}

arguments = walk.options(__doc__)
pairs = {split: list(phrasebook.pairs(split)) for split in ("train", "test")}
print(f"The corpus in this package, made by a grammar: {len(pairs['train']):,} training pairs.")
for source, target in pairs["test"][:8]:
    print(f"\n  x           {source}\n  y           {target}")
    print(f"  dictionary  {baselines.word_for_word(source)}")
right = sum(baselines.word_for_word(source) == target for source, target in pairs["test"])
print(f"\nThe dictionary gets {right} of {len(pairs['test'])} unseen sentences right.")

figure = Figure(figsize=(draw.WIDTH, 3.8))
for axes, (source, links) in zip(figure.subplots(2, 1), ORDERS.items(), strict=True):
    for i, word in enumerate(source.split()):
        draw.label(axes, i, 1.08, word, color=draw.BLUE, fontsize=12)
        for j in links[i]:
            color = draw.RED if i < j else draw.GREY
            axes.plot([i, j], [0.97, 0.1], color=color, linewidth=1.5)
    for j, word in enumerate(ENGLISH.split()):
        draw.label(axes, j, -0.01, word, fontsize=12)
    for y, language in ((1.08, "Portuguese"), (-0.01, "English")):
        draw.label(axes, -0.7, y, language, ha="right", color=draw.GREY)
    axes.set(xlim=(-1.9, 8.5), ylim=(-0.15, 1.25))
    axes.set_axis_off()
figure.supxlabel("red: words that move towards the end", fontsize=10)
walk.save(figure, arguments.output, "01_task.png")
