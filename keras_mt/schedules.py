"""Learning rates that rise linearly at first, as Transformers need it."""

from typing import Any

import keras
from keras import ops

from keras_mt.layers.types import Tensor
from keras_mt.layers.validation import check_positive

__all__ = ["WarmupInverseSquareRoot", "WarmupLinearDecay"]


@keras.saving.register_keras_serializable(package="keras_mt")
class WarmupInverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then decay with the inverse square root of the step.

    `d_model^-0.5 * min(n^-0.5, n * warmup_steps^-1.5)` for the n-th update, n from 1.

    Args:
        d_model: Width of the model.
        warmup_steps: Number of updates over which the rate rises.
        peak: The rate at the end of the warm-up; None for the formula's,
            `(d_model * warmup_steps)^-0.5`. Another value scales the whole schedule.

    Call arguments:
        step: Number of updates already made; Keras passes 0 for the first.

    Returns:
        The learning rate, a float32 scalar.

    Raises:
        ValueError: If an argument is not positive, or one other than `peak` is not an integer.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, equation 3
        (https://arxiv.org/abs/1706.03762).

    Example:

    >>> schedule = WarmupInverseSquareRoot(d_model=512, warmup_steps=4000)
    >>> optimizer = keras.optimizers.Adam(schedule, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    >>> round(float(schedule(3999)), 6)
    0.000699
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, peak: float | None = None) -> None:
        check_positive(d_model=d_model, warmup_steps=warmup_steps)
        if peak is not None and not peak > 0:
            raise ValueError(f"peak must be positive, or None. Received: peak={peak}")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.peak = peak

    def __call__(self, step: int | Tensor) -> Tensor:
        n = ops.cast(step, "float32") + 1.0
        peak = self.peak or (self.d_model * self.warmup_steps) ** -0.5
        return peak * ops.minimum(ops.sqrt(self.warmup_steps / n), n / self.warmup_steps)

    def get_config(self) -> dict[str, Any]:
        return {"d_model": self.d_model, "warmup_steps": self.warmup_steps, "peak": self.peak}


@keras.saving.register_keras_serializable(package="keras_mt")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then linear decay to zero at the end of training.

    `peak * min(n / warmup_steps, (total_steps + 1 - n) / (total_steps + 1 - warmup_steps))` for the
    n-th update, n from 1, and 0 for later ones. In an equal time it trains a better model than a
    rate that is still high at the end.

    Args:
        peak: The rate at the end of the warm-up.
        warmup_steps: Number of updates over which the rate rises.
        total_steps: Number of updates in all.

    Call arguments:
        step: Number of updates already made; Keras passes 0 for the first.

    Returns:
        The learning rate, a float32 scalar.

    Raises:
        ValueError: If an argument is not positive, or `warmup_steps` is above `total_steps`.

    Reference:
        Bergsma et al. 2025, Straight to Zero: Why Linearly Decaying the Learning Rate to Zero Works
        Best for LLMs (https://arxiv.org/abs/2502.15938).

    Example:

    >>> schedule = WarmupLinearDecay(peak=0.001, warmup_steps=100, total_steps=1000)
    >>> [round(float(schedule(step)), 6) for step in (0, 99, 549, 1000)]
    [1e-05, 0.001, 0.000501, 0.0]
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        if not peak > 0:
            raise ValueError(f"peak must be positive. Received: peak={peak}")
        check_positive(warmup_steps=warmup_steps, total_steps=total_steps)
        if warmup_steps > total_steps:
            raise ValueError(f"warmup_steps={warmup_steps} is above total_steps={total_steps}.")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps

    def __call__(self, step: int | Tensor) -> Tensor:
        n, end = ops.cast(step, "float32") + 1.0, self.total_steps + 1.0
        falling = ops.maximum(end - n, 0.0) / (end - self.warmup_steps)
        return self.peak * ops.minimum(n / self.warmup_steps, falling)

    def get_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("peak", "warmup_steps", "total_steps")}
