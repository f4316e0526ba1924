import numpy as np
import pytest

from keras_mt import plots


def test_pictures_are_written_whole(run_dir, tmp_path):
    plots.plot_run(run_dir / "log.csv", tmp_path / "deep" / "run.png")
    # No formulas: what stands between dollar signs is none.
    plots.plot_alignment(["$_$5", "b", "</s>"], ["$^$", "</s>"], np.eye(2, 3), tmp_path / "a.svg")
    assert (tmp_path / "deep" / "run.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<svg" in svg and "<!-- $_$5 -->" in svg and "<!-- $^$ -->" in svg
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["a.svg"]


def test_a_log_without_steps_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("step,loss,val_loss,event\n0,,,started\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"log\.csv holds no trained step"):
        plots.plot_run(tmp_path / "log.csv", tmp_path / "run.png")
