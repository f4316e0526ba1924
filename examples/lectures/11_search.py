"""Step 11: inference. One token at a time, with several hypotheses kept.

The encoder runs once. At each step the decoder gives the distribution of the next token. Greedy
search takes the best token, and cannot undo it. Beam search keeps the B most probable hypotheses,

    log p(y_1 ... y_i | x) = sum_j log p(y_j | y_1 ... y_{j-1}, x)

puts aside those that have ended, with the score log p / length, which offsets the disadvantage of
longer ones, and stops when no live hypothesis can beat them. The picture shows all that it tried.
"""

import walk
from search_tree import search_figure, translation_tree

import keras_mt
from keras_mt.run_folder import RunFolder

arguments = walk.options(
    __doc__,
    run=str(walk.ROOT / "examples/multi30k/cased"),
    sentence="People are admiring a work of art.",
    beam_size=3,
)
if not RunFolder(arguments.run).is_finished:
    raise SystemExit(f"{arguments.run} is not a trained run: run `make demo`, or give --run.")


def searched(beam_size):
    """The nodes of a search, and the pieces of what it found."""
    translator = keras_mt.Translator.load(arguments.run, beam_size=beam_size)
    nodes = translation_tree(translator, arguments.sentence)
    best = node = max((n for n in nodes if n.fate == "finished"), key=lambda n: n.score)
    pieces = [node.token]
    while node.parent is not None:
        node = nodes[node.parent]
        pieces.insert(0, node.token)
    return nodes, best, walk.words(pieces)


print(f"\n{arguments.sentence}")
_, best, pieces = searched(1)
print("\ngreedy, one token at each step")
for length in range(1, len(pieces) + 1):
    print(f"  {' '.join(pieces[:length])}")
print(f"  score {best.score:.3f}")
nodes, best, pieces = searched(arguments.beam_size)
print(f"\na beam of {arguments.beam_size}\n  {' '.join(pieces)}\n  score {best.score:.3f}")
fates = [node.fate for node in nodes]
print(f"  {', '.join(f'{fates.count(f)} {f}' for f in ('kept', 'finished', 'pruned'))}")

named = [node._replace(token=walk.words([node.token])[0]) for node in nodes]
walk.save(search_figure(named), arguments.output, "11_search.png", dpi=150)
