"""The tree of all hypotheses that a search considered, including those that it pruned."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.decoding.beam_search import NO_HYPOTHESIS, beam_search
from keras_mt.errors import InputError
from keras_mt.options import SearchOptions


class SearchNode(NamedTuple):
    """A hypothesis that a search considered.

    Attributes:
        token: Its last token, an int; in the tree of a `Translator` the piece, a str.
        parent: The index in the list of the hypothesis that it continues; None for the first
            token.
        length: Its number of tokens, with the end where there is one.
        log_prob: The log-probability of all its tokens.
        fate: `"kept"`: it was among those that live on; `"finished"`: it was set aside with its
            score; `"pruned"`: it was among the best continuations, but others were better.
        score: log_prob / length ** length_penalty of a finished one; else None.

    Example:

    >>> node = SearchNode("▁book", parent=2, length=3, log_prob=-0.7, fate="kept", score=None)
    >>> node.token, node.fate
    ('▁book', 'kept')
    """

    token: int | str
    parent: int | None
    length: int
    log_prob: float
    fate: str
    score: float | None


def search_tree(
    step: Callable, cache: Any, max_length: Any, *, eos_id: int = 3, **arguments: Any
) -> list[SearchNode]:
    """Runs a beam search for one sequence and records what it kept, finished and pruned.

    The search is that of `beam_search`: the finished node with the best score is the hypothesis
    that it returns. At each step it ranks twice as many continuations as there are beams, and these
    are the nodes.

    Args:
        step: As in `beam_search`; called eagerly.
        cache: As in `beam_search`, of a batch of one.
        max_length: Integers `[1]`: the most tokens to generate, with the end.
        eos_id: The token that ends a hypothesis.
        **arguments: The other arguments of `beam_search`, but for `row_options` and `observe`.

    Returns:
        A list of `SearchNode`, sorted by length; nodes of the same length come best first.

    Raises:
        ValueError: If the batch size is not 1, or the call is inside a `tf.function`.

    Example:

    >>> bigrams = tf.constant([[0., 0, 0, 1, 5], [0, 0, 0, 4, 3]])  # after the start, after others
    >>> def step(tokens, position, cache, mask):
    ...     return tf.gather(bigrams, tf.cast(tokens == 4, tf.int32)), cache
    >>> tree = search_tree(step, (), max_length=[5], beam_size=1)
    >>> [(node.token, node.parent, node.fate) for node in tree]
    [(4, None, 'kept'), (3, None, 'pruned'), (3, 0, 'finished'), (4, 0, 'kept')]
    """
    max_length = tf.convert_to_tensor(max_length)
    if tf.inside_function():
        raise InputError("search_tree needs tensor values: call it outside of a tf.function.")
    if max_length.shape != (1,):
        raise InputError(
            "search_tree takes a batch of one, with max_length of shape (1,). "
            f"Received: max_length of shape {max_length.shape}"
        )
    names = SearchOptions.__dataclass_fields__
    options = SearchOptions(**{n: value for n, value in arguments.items() if n in names})
    nodes, live, length = [], [None] * options.beams, 0

    def observe(continuations, chosen):
        nonlocal live, length
        length += 1
        places = {}
        for rank, (log_prob, parent, token) in enumerate(_rows(continuations)):
            if log_prob <= NO_HYPOTHESIS / 2:
                continue
            ends = token == eos_id or length == int(max_length[0])
            finished = ends and rank < options.beams
            score = log_prob / length**options.length_penalty if finished else None
            places[parent, token] = len(nodes)
            fate = "finished" if finished else "pruned"
            nodes.append(SearchNode(token, live[parent], length, log_prob, fate, score))
        live = [places.get((parent, token)) for _, parent, token in _rows(chosen)]
        for place in live:
            if place is not None and nodes[place].fate == "pruned":
                nodes[place] = nodes[place]._replace(fate="kept")

    beam_search(step, cache, max_length, eos_id=eos_id, observe=observe, **arguments)
    return nodes


def _rows(continuations):
    return zip(*(x[0].numpy().tolist() for x in continuations), strict=True)
