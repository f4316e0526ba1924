"""Step 11: inference. One token at a time, with several hypotheses kept.

The encoder runs once. At each step the decoder gives the distribution of the next token. Greedy
search takes the best token, and cannot undo it. Beam search keeps the B most probable hypotheses,

    log p(y_1 ... y_i | x) = sum_j log p(y_j | y_1 ... y_{j-1}, x)

puts aside those that have ended, with the score log p / length, which offsets the disadvantage of
longer ones, and stops when no live hypothesis can beat them. The pictures show how the decoder's
input grows, and all that a search tried. By default the model is this repository's English-German
one:

    python examples/lectures/11_search.py --sentence "A man is reading." --beam-size 3
"""

import numpy as np
import walk
from search_tree import best_path, search_figure, translation_tree

import keras_mt
from keras_mt.run_folder import RunFolder

arguments = walk.options(
    __doc__,
    run=str(walk.ROOT / "examples/multi30k/cased"),
    sentence="There is a concert going on.",
    beam_size=2,
)
if not RunFolder(arguments.run).model_file.exists():
    raise SystemExit(f"{arguments.run} is not a trained run: run `make demo`, or give --run.")


def searched(beam_size):
    """The nodes of a search, and among them those of the best hypothesis."""
    translator = keras_mt.Translator.load(arguments.run, beam_size=beam_size)
    nodes = translation_tree(translator, arguments.sentence)
    nodes = [node._replace(token=walk.words([node.token])[0]) for node in nodes]
    return nodes, [nodes[place] for place in sorted(best_path(nodes))]


def growing(nodes, way):
    """A row for each step of greedy search: what was read before, what is read, the prediction."""
    column, row = (walk.WIDTH - 1.2) / (len(way) + 1), 0.42
    figure, axes = walk.drawing(row * len(way) + 0.9)
    top = row * len(way) + 0.4
    axes.text(0.15, top + 0.25, arguments.sentence, parse_math=False)
    tokens = ["<start>", *(node.token for node in way)]
    for i, node in enumerate(way):
        y = top - row * (i + 0.5)
        axes.text(0.15, y, f"step {i + 1}", color=walk.GREY, va="center")
        size = {"width": 0.92 * column, "height": 0.3, "fontsize": 9}
        for j in range(i + 2):
            colour = walk.PALE if j < i else walk.BLUE if j == i else walk.RED
            x = 0.75 + column * (j + 0.5)
            walk.box(axes, x, y, tokens[j], colour, filled=j >= i, **size)
        before = way[i - 1].log_prob if i else 0.0
        label = f"{np.exp(node.log_prob - before):.2f}"
        axes.text(x + 0.52 * column, y, label, fontsize=9, color=walk.RED, va="center")
    axes.text(
        walk.WIDTH / 2, 0.2, "blue: read at this step; outlined: read before, keys and values "
        "kept; red: most probable next token", ha="center", fontsize=9,
    )  # fmt: skip
    return figure


print(f"\n{arguments.sentence}")
greedy_nodes, greedy = searched(1)
pieces = [node.token for node in greedy]
print("\ngreedy, one token at each step")
for length in range(1, len(pieces) + 1):
    print(f"  {' '.join(pieces[:length])}")
print(f"  score {greedy[-1].score:.3f}")
nodes, best = searched(arguments.beam_size)
found = " ".join(node.token for node in best)
print(f"\na beam of {arguments.beam_size}\n  {found}\n  score {best[-1].score:.3f}")
fates = [node.fate for node in nodes]
print(f"  {', '.join(f'{fates.count(f)} {f}' for f in ('kept', 'finished', 'pruned'))}")

walk.save(growing(greedy_nodes, greedy), arguments.output, "11_growing.png")
figure = search_figure(nodes, greedy, f"{arguments.sentence}   A beam of {arguments.beam_size}:")
walk.save(figure, arguments.output, "11_search.png")
