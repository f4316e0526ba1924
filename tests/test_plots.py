import numpy as np
import pytest

from keras_mt import plots


def test_pictures_are_written_whole(run_dir, tmp_path):
    plots.plot_run(run_dir / "log.csv", tmp_path / "deep" / "run.png")
    plots.plot_alignment(["a", "b", "</s>"], ["x", "</s>"], np.eye(2, 3), tmp_path / "a.svg")
    assert (tmp_path / "deep" / "run.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["a.svg"]


def test_a_log_without_steps_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("step,loss,val_loss,event\n0,,,started\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"log\.csv holds no trained step"):
        plots.plot_run(tmp_path / "log.csv", tmp_path / "run.png")
