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

import draw
import numpy as np
import walk
from draw_search import search_figure
from search_tree import best_path, translation_tree

arguments = walk.options(
    __doc__, run=walk.CAPTIONS, sentence="There is a concert going on.", beam_size=2
)


def searched(beam_size):
    """The nodes of a search, and among them those of the best hypothesis."""
    translator, _ = walk.trained(arguments.run, beam_size=beam_size)
    nodes = translation_tree(translator, arguments.sentence)
    nodes = [node._replace(token=walk.words([node.token])[0]) for node in nodes]
    return nodes, [nodes[place] for place in sorted(best_path(nodes))]


print(f"\n{arguments.sentence}")
_, greedy = searched(1)
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

probabilities = np.exp(np.diff([node.log_prob for node in greedy], prepend=0))
figure = draw.growing(arguments.sentence, ["<start>", *pieces], probabilities)
walk.save(figure, arguments.output, "11_growing.png")
figure = search_figure(nodes, greedy, f"{arguments.sentence}   A beam of {arguments.beam_size}:")
walk.save(figure, arguments.output, "11_search.png")
