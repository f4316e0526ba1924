import csv

import matplotlib.image
import numpy as np
import pytest

from keras_mt import plots
from keras_mt.decoding import SearchNode


def test_pictures_are_written_whole(run_dir, tmp_path):
    plots.plot_run(run_dir / "log.csv", tmp_path / "deep" / "run.svg")
    # No formulas: what stands between dollar signs is none.
    plots.plot_alignment(["$_$5", "b", "</s>"], ["$^$", "</s>"], np.eye(2, 3), tmp_path / "a.svg")
    run = (tmp_path / "deep" / "run.svg").read_text(encoding="utf-8")
    for label in ("training", "validation", "BLEU (validation)", "learning rate", "step"):
        assert f"<!-- {label} -->" in run
    with open(run_dir / "log.csv", encoding="utf-8", newline="") as file:
        measured = [row for row in csv.DictReader(file) if row["val_bleu"]]
    assert run.count("<use ") > 2 * len(measured)  # Marks of the validation loss and of BLEU.
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<svg" in svg and "<!-- $_$5 -->" in svg and "<!-- $^$ -->" in svg
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["a.svg"]


def test_attention_is_drawn_where_it_is(tmp_path):
    plots.plot_alignment(["a", "b"], ["c", "d"], [[0, 1], [0, 0]], tmp_path / "a.png")
    picture = matplotlib.image.imread(tmp_path / "a.png")[..., :3]
    dark = np.argwhere(picture.max(-1) - picture.min(-1) > 0.3)
    dark = dark[dark[:, 1] < 0.7 * picture.shape[1]]  # Without the colour bar.
    (top, left), (bottom, right) = dark.min(0), dark.max(0)
    assert len(dark) > 0.95 * (bottom - top) * (right - left)  # One whole cell,
    height, width, _ = picture.shape
    assert bottom < 0.65 * height and left > 0.4 * width  # above, on the right.


def test_a_log_without_steps_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("step,loss,val_loss,event\n0,,,started\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"log\.csv holds no trained step"):
        plots.plot_run(tmp_path / "log.csv", tmp_path / "run.png")


def test_heads_are_drawn_each_in_its_place():
    scores = [np.random.default_rng(i).dirichlet(np.ones(3), (2 + i, 2)) for i in range(2)]
    figure = plots.heads_figure(["$a", "b"], ["c", "d", "e"], scores)
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


@pytest.mark.parametrize("scores", [[], [np.ones((1, 3, 2))], [np.ones((2, 3))]])
def test_heads_of_another_shape_are_refused(scores, tmp_path):
    with pytest.raises(ValueError, match=r"scores must hold .*\[num_heads, 2, 3\]"):
        plots.plot_heads(["a", "b"], ["c", "d", "e"], scores, tmp_path / "a.png")


# A hypothesis by its letters, its fate, and where it stands: no two lines cross.
TREE = [
    (SearchNode("a", None, 1, -0.1, "kept", None), (1, -0.5)),
    (SearchNode("b", None, 1, -2.0, "kept", None), (1, -1.5)),
    (SearchNode("c", 1, 2, -2.1, "kept", None), (2, -2)),
    (SearchNode("</s>", 0, 2, -2.3, "finished", -1.15), (2, 0)),
    (SearchNode("d", 0, 2, -2.4, "pruned", None), (2, -1)),
    (SearchNode("</s>", 2, 3, -2.2, "finished", -0.73), (3, -1)),
]


def test_a_search_is_drawn_as_its_tree():
    nodes = [node for node, _ in TREE]
    figure = plots.search_figure(nodes)
    (axes,) = figure.axes
    texts = {text.get_position(): text for text in axes.texts}
    ends = [tuple(patch.get_path().vertices[-1] + [0.3, 0]) for patch in axes.patches]
    colours = []
    for node, place in TREE:
        assert texts[place].get_text() == node.token
        (line,) = [
            patch for patch, end in zip(axes.patches, ends, strict=True) if np.allclose(end, place)
        ]
        parent = (0, -1) if node.parent is None else TREE[node.parent][1]
        np.testing.assert_allclose(line.get_path().vertices[0][1], parent[1])
        colours.append(line.get_edgecolor())
    assert colours[1] == colours[2] == colours[5]  # The way to the best score.
    assert colours[0] == colours[3] != colours[4] != colours[1]
    labels = "\n".join(text.get_text() for text in axes.texts)
    assert "0.90" in labels and f"{np.exp(-2.1):.2f}" not in labels  # Of the token, not of all.
    assert "score -0.73" in labels and "score -1.15" in labels


def test_a_search_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nodes must not be empty"):
        plots.plot_search([], tmp_path / "tree.png")


def test_the_load_of_experts_is_drawn_as_it_is(tmp_path):
    loads = {"encoder_1": np.array([0.25, 0.75, 1.0]), "decoder_1": np.array([0.5, 0.5])}
    figure = plots.expert_load_figure(loads)
    for axes, (name, load) in zip(figure.axes, loads.items(), strict=True):
        assert axes.get_title() == name
        assert [bar.get_height() for bar in axes.patches] == load.tolist()
        assert set(axes.lines[0].get_ydata()) == {load.mean()}
    plots.plot_expert_load(loads, tmp_path / "load.png")
    assert (tmp_path / "load.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="loads must not be empty"):
        plots.expert_load_figure({})
