import keras
import numpy as np
import pytest

from keras_mt import WarmupInverseSquareRoot
from keras_mt.schedules import WarmupLinearDecay


@pytest.mark.parametrize(("d_model", "warmup_steps"), [(512, 4000), (128, 10)])
def test_it_is_the_papers_formula_from_keras_first_step_zero(d_model, warmup_steps):
    schedule = WarmupInverseSquareRoot(d_model, warmup_steps)
    for step in (0, 1, warmup_steps - 2, warmup_steps - 1, warmup_steps, 100_000):
        n = step + 1
        expected = d_model**-0.5 * min(n**-0.5, n * warmup_steps**-1.5)
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5)
        assert float(schedule(keras.ops.convert_to_tensor(step))) == pytest.approx(
            expected, rel=1e-5
        )


def test_the_first_update_has_the_first_rate():
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(WarmupInverseSquareRoot(4, 2)), "mae")
    model.fit(np.ones((1, 1)), np.ones((1, 1)), verbose=0)
    assert float(model.get_weights()[0][0, 0]) == pytest.approx(4**-0.5 * 2**-1.5, rel=1e-5)


def test_it_survives_a_file(tmp_path):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(WarmupInverseSquareRoot(64, 7)), "mse")
    model.save(tmp_path / "model.keras")
    schedule = keras.models.load_model(tmp_path / "model.keras").optimizer._learning_rate
    assert schedule.get_config() == {"d_model": 64, "warmup_steps": 7, "peak": None}


def test_another_peak_scales_the_whole():
    schedule, papers = WarmupInverseSquareRoot(64, 8, peak=0.5), WarmupInverseSquareRoot(64, 8)
    assert float(schedule(7)) == pytest.approx(0.5)
    for step in (0, 3, 20):
        share = float(papers(step)) / float(papers(7))
        assert float(schedule(step)) == pytest.approx(0.5 * share, rel=1e-5)


@pytest.mark.parametrize("arguments", [(0, 10), (64, 0), (64, -5), (6.5, 10), (64, 10, 0.0)])
def test_impossible_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match=r"d_model|warmup_steps|peak"):
        WarmupInverseSquareRoot(*arguments)


def test_a_linear_decay_rises_falls_and_ends():
    schedule = WarmupLinearDecay(0.5, warmup_steps=4, total_steps=10)
    rates = [float(schedule(step)) for step in range(12)]
    np.testing.assert_allclose(rates[:4], [0.125, 0.25, 0.375, 0.5])
    np.testing.assert_allclose(np.diff(rates[3:11]), -0.5 / 7, rtol=1e-5)
    assert rates[9] > 0 and rates[10] == rates[11] == 0
    assert WarmupLinearDecay(**schedule.get_config())(7) == schedule(7)


@pytest.mark.parametrize("arguments", [(0.0, 1, 2), (1.0, 0, 2), (1.0, 3, 2), (1.0, 1, 2.5)])
def test_a_decay_that_cannot_be_is_refused(arguments):
    with pytest.raises(ValueError, match=r"peak|warmup_steps|total_steps"):
        WarmupLinearDecay(*arguments)
