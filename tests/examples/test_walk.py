import numpy as np
import walk


def test_heads_are_drawn_each_in_its_place():
    scores = [np.random.default_rng(i).dirichlet(np.ones(3), (2 + i, 2)) for i in range(2)]
    figure = walk.heads_figure(["$a", "b"], ["c", "d", "e"], scores)
    grid = np.reshape(figure.axes, (2, 3))
    for layer, heads in enumerate(scores):
        for head, weights in enumerate(heads):
            axes = grid[layer, head]
            np.testing.assert_array_equal(axes.images[0].get_array(), weights)
            assert axes.images[0].get_clim() == (0, 1)
            assert axes.get_xlabel() == f"layer {layer + 1}, head {head + 1}"
            shown = [label.get_text() for label in axes.get_xticklabels()]
            assert shown == (["c", "d", "e"] if layer == 0 else [])  # At the top alone,
            shown = [label.get_text() for label in axes.get_yticklabels()]
            assert shown == (["$a", "b"] if head == 0 else [])  # and on the left.
    assert not grid[0, 2].images and not grid[0, 2].axison  # The first layer has two heads.
