"""The tree of a search: that of beam_search itself, and what an enumeration of all says."""

import itertools

import draw
import numpy as np
import pytest
import tensorflow as tf
from draw_search import search_figure
from search_tree import SearchNode, search_tree, translation_tree

from keras_mt.decoding import beam_search

START, END, VOCABULARY = 2, 3, 7


def bigrams(seed):
    """A step function whose next token depends on the last one, and its log-probabilities."""
    logits = np.random.default_rng(seed).normal(size=(VOCABULARY, VOCABULARY)).astype("float32")

    def step(tokens, position, cache, mask):
        return tf.gather(logits, tokens), cache

    return step, np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))


def tree(log_probs, max_length, **options):
    """The tree of a search in which padding and start are never generated."""
    allowed = np.where(np.isin(np.arange(VOCABULARY), [0, START]), -np.inf, log_probs)

    def of_next(hypotheses):
        return allowed[[(START, *tokens)[-1] for tokens in hypotheses]]

    return search_tree(of_next, max_length=max_length, **options)


def way(nodes, node):
    tokens = [node.token]
    while node.parent is not None:
        node = nodes[node.parent]
        tokens.insert(0, node.token)
    return tokens


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("beams", "length_penalty"), [(1, 1.0), (3, 0.6), (2, 0.0)])
def test_the_best_of_the_tree_is_what_beam_search_finds(seed, beams, length_penalty):
    step, log_probs = bigrams(seed)
    found = beam_search(step, (), [5], beam_size=beams, length_penalty=length_penalty)
    nodes = tree(log_probs, 5, beams=beams, length_penalty=length_penalty)
    best = max((n for n in nodes if n.fate == "finished"), key=lambda n: n.score)
    assert way(nodes, best) == found.tokens[0, 0, : int(found.lengths[0, 0])].numpy().tolist()
    assert best.score == pytest.approx(float(found.scores[0, 0]), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_every_step_of_the_tree(seed):
    """What is kept and pruned, by sorting all continuations of what was kept."""
    beams, (_, log_probs) = 2, bigrams(seed)
    nodes = tree(log_probs, 4, beams=beams)
    live = [((), 0.0)]
    for length in itertools.count(1):
        here = [node for node in nodes if node.length == length]
        if not here:
            break
        ranked = sorted(
            (
                ((*tokens, token), log_prob + log_probs[(START, *tokens)[-1], token])
                for tokens, log_prob in live
                for token in range(1, VOCABULARY)
                if token != START
            ),
            key=lambda pair: -pair[1],
        )[: 2 * beams]
        assert [tuple(way(nodes, node)) for node in here] == [tokens for tokens, _ in ranked]
        np.testing.assert_allclose([n.log_prob for n in here], [p for _, p in ranked], rtol=1e-4)
        live = [pair for pair in ranked if pair[0][-1] != END][:beams]
        alive = {tokens for tokens, _ in live}
        for rank, (node, (tokens, log_prob)) in enumerate(zip(here, ranked, strict=True)):
            ends = tokens[-1] == END or length == 4
            fate = "finished" if ends and rank < beams else "kept" if tokens in alive else "pruned"
            assert node.fate == fate
            score = pytest.approx(log_prob / length, rel=1e-4) if fate == "finished" else None
            assert node.score == score
    assert 1 < length <= 5


def test_a_translator_looks_into_its_search(eager, translator, sources):
    for source in sources[:1]:
        nodes = translation_tree(translator, source)
        ((found, *_),) = translator.hypotheses([source], token_scores=True)
        best = max((n for n in nodes if n.fate == "finished"), key=lambda n: n.score)
        assert way(nodes, best) == [piece for piece, _ in found.tokens]
        assert best.score == pytest.approx(found.score, rel=1e-4)


# Tokens, parent, length, log-probability, fate and score.
TREE = [
    SearchNode("a", None, 1, -0.1, "kept", None),
    SearchNode("b", None, 1, -2.0, "kept", None),
    SearchNode("c", 1, 2, -2.1, "kept", None),
    SearchNode("</s>", 0, 2, -2.3, "finished", -1.15),
    SearchNode("d", 0, 2, -2.4, "pruned", None),
    SearchNode("e", 0, 2, -6.1, "pruned", None),
    SearchNode("</s>", 2, 3, -2.2, "finished", -0.73),
]


def test_a_search_is_drawn_as_its_tree():
    greedy = [TREE[0], TREE[4], SearchNode("</s>", None, 3, -3.0, "finished", -1.0)]
    figure = search_figure(TREE, greedy, "source")
    (axes,) = figure.axes
    texts = {text.get_text(): text for text in axes.texts}
    ends = {tuple(patch.get_path().vertices[-1]): patch for patch in axes.patches}
    # What has no alternative shares a label; the best child is in its parent's row.
    shown = ["</s>", "d </s>", "b c </s>"]
    heights = [texts[label].get_position()[1] for label in shown]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] == pytest.approx(texts["a"].get_position()[1])
    assert "e" not in texts  # Less probable than 5%.
    colours = [texts[label].get_color() for label in ("a", *shown)]
    assert colours[0] == colours[1] and len(set(colours)) == 3
    assert texts["b c </s>"].get_color() == draw.RED  # The way to the best score.
    assert texts["d </s>"].get_color() == draw.ORANGE  # Greedy's, where the beam left it.
    assert sum(patch.get_alpha() is not None for patch in axes.patches) == 2  # Its marks.
    for label, probability in {
        "a": f"{np.exp(-0.1):.2f}",
        "</s>": f"{np.exp(-2.2):.2f}, score -1.15",  # Of the token, not of all.
        "b c </s>": f"{np.exp(-2.2):.2f}, score -0.73: the best",
    }.items():
        x, y = texts[label].get_position()
        below = min(
            axes.texts, key=lambda text: np.hypot(*np.subtract(text.get_position(), (x, y - 0.19)))
        )
        assert below.get_text() == probability
    assert len(ends) == 4 and {"source", "1", "2", "3"} <= {*texts}
