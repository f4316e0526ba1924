"""The tree of all hypotheses that a search considered, including those that it pruned.

The search is `keras_mt.decoding.beam_search` in plain Python: for one sentence, without a cache.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class SearchNode(NamedTuple):
    """A hypothesis that a search considered.

    Attributes:
        token: Its last token, an int; in the tree of a translation the piece, a str.
        parent: The index in the list of the hypothesis that it continues; None for the first
            token.
        length: Its number of tokens, with the end where there is one.
        log_prob: The log-probability of all its tokens.
        fate: `"kept"`: it was among those that live on; `"finished"`: it was set aside with its
            score; `"pruned"`: it was among the best continuations, but others were better.
        score: log_prob / length ** length_penalty of a finished one; else None.
    """

    token: int | str
    parent: int | None
    length: int
    log_prob: float
    fate: str
    score: float | None


def search_tree(log_probs, beams, max_length, length_penalty=1.0, eos_id=3):
    """Runs a beam search for one sequence and records what it kept, finished and pruned.

    At each step it ranks twice as many continuations as there are beams, and these are the nodes.
    It ends when no hypothesis that lives on can beat the best one that has finished.

    Args:
        log_probs: Function of hypotheses, lists of as many tokens: the log-probabilities of the
            token that comes next, `[hypotheses, vocab_size]`, -inf for one that is impossible.
        beams: The number of hypotheses that live on.
        max_length: The maximum number of tokens to generate, with the end.
        length_penalty: Exponent of the length in the score.
        eos_id: The token that ends a hypothesis.

    Returns:
        A list of `SearchNode`, sorted by length; nodes of the same length come best first.
    """
    nodes, live, best = [], {None: []}, -np.inf  # What lives on: places of nodes, and all tokens.
    for length in range(1, max_length + 1):
        parents, before = list(live), list(live.values())
        totals = np.array(log_probs(before))
        totals += [[0.0 if place is None else nodes[place].log_prob] for place in parents]
        live = {}
        for rank, place in enumerate(np.argsort(-totals, axis=None)[: 2 * beams]):
            row, token = map(int, np.unravel_index(place, totals.shape))
            log_prob = float(totals[row, token])
            if log_prob == -np.inf:
                break
            is_end = token == eos_id
            finished = (is_end or length == max_length) and rank < beams
            kept = not is_end and len(live) < beams
            if kept:
                live[len(nodes)] = [*before[row], token]
            fate = "finished" if finished else "kept" if kept else "pruned"
            score = log_prob / length**length_penalty if finished else None
            nodes.append(SearchNode(token, parents[row], length, log_prob, fate, score))
            best = max(best, -np.inf if score is None else score)
        reachable = max((nodes[place].log_prob for place in live), default=-np.inf)
        if best >= reachable / max_length**length_penalty:
            break
    return nodes


def translation_tree(translator, text):
    """The search tree of the translation of one sentence, whose tokens are pieces."""
    (model,), tokenizer, options = translator.models, translator.tokenizer, translator.options
    pieces = tokenizer.pieces(tf.constant([text]))
    source = tokenizer.source_ids(pieces).to_tensor(tokenizer.padding_id).numpy()
    length = min(2 * int(pieces.row_lengths()[0]) + 10, model.max_length)

    def log_probs(hypotheses):
        targets = np.array([[tokenizer.bos_id, *tokens] for tokens in hypotheses], "int32")
        logits = model({"source": np.repeat(source, len(targets), axis=0), "target": targets})
        found = tf.nn.log_softmax(logits[:, -1]).numpy()
        found[:, list(tokenizer.forbidden_ids)] = -np.inf
        return found

    nodes = search_tree(
        log_probs,
        options.beams,
        options.max_length or length,
        options.length_penalty,
        tokenizer.eos_id,
    )
    names = tokenizer.id_to_string(tf.constant([node.token for node in nodes])).numpy()
    return [
        node._replace(token=name.decode("utf-8")) for node, name in zip(nodes, names, strict=True)
    ]


def best_path(nodes):
    """The indices of the finished hypothesis with the best score, and of those it continues."""
    finished = [i for i, node in enumerate(nodes) if node.fate == "finished"]
    place = max(finished, key=lambda i: nodes[i].score, default=None)
    way = set()
    while place is not None:
        way.add(place)
        place = nodes[place].parent
    return way
