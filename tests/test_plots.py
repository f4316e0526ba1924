import csv

import matplotlib.image
import numpy as np
import pytest

from keras_mt import plots


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
