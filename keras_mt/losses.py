"""The loss of a translator: cross-entropy over the real tokens."""

from typing import Any

import keras
from keras import ops

from keras_mt.layers.types import DType, Tensor
from keras_mt.layers.validation import check_rate

__all__ = ["CrossEntropy"]


@keras.saving.register_keras_serializable(package="keras_mt")
class CrossEntropy(keras.losses.Loss):
    """Cross-entropy of logits with label smoothing, averaged over the tokens that are not padding.

    For a token `y` and the model's probabilities `p` over a vocabulary of V tokens:
    `-(1 - label_smoothing) log p[y] - label_smoothing / V * sum_v log p[v]`.

    Args:
        label_smoothing: The share of the label that is spread over the vocabulary, at least 0 and
            below 1.
        padding_id: The label that does not count; it need not be a token (-100, for example).
        reduction: `"mean_with_sample_weight"` (the mean over real tokens), `"sum"` or `"none"`.
        name: Name of the loss.
        dtype: Dtype of the computation, to which labels are converted too: `"float32"` or
            `"float64"`.

    Call arguments:
        y_true: Integer labels `[batch, length]`.
        y_pred: Logits `[batch, length, vocab_size]`.
        sample_weight: Optional weights `[batch]` or `[batch, length]`.

    Returns:
        A scalar in nats, or `[batch, length]` with the reduction `"none"`.

    Raises:
        ValueError: If an argument is out of range, or the dtype would round labels.

    Reference:
        Szegedy et al. 2016, Rethinking the Inception Architecture for Computer Vision, section 7
        (https://arxiv.org/abs/1512.00567).

    Example:

    >>> loss = CrossEntropy(label_smoothing=0.1)
    >>> round(float(loss(np.array([[1, 2, 0]]), np.zeros((1, 3, 8)))), 4)  # log 8
    2.0794
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        padding_id: int = 0,
        reduction: str = "mean_with_sample_weight",
        name: str = "cross_entropy",
        dtype: DType = "float32",
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=check_label_dtype(dtype))
        check_rate(label_smoothing=label_smoothing)
        self.label_smoothing = label_smoothing
        self.padding_id = padding_id

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        weight = token_weights(y_true, self.padding_id, sample_weight, self.dtype)
        return super().__call__(y_true, y_pred, sample_weight=weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return cross_entropy(class_ids(y_true, self.padding_id), y_pred, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        config = {"label_smoothing": self.label_smoothing, "padding_id": self.padding_id}
        return {**super().get_config(), **config}


class SymmetricKLDivergence(keras.losses.Loss):
    """`(KL(p || q) + KL(q || p)) / 2` of two sets of logits, as R-Drop has it (Liang et al. 2021).

    It is `sum((p - q) (log p - log q)) / 2` (https://arxiv.org/abs/2106.14448).
    """

    def __init__(self) -> None:
        super().__init__(reduction="mean_with_sample_weight")

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        # The log-partitions cancel, since p - q sums to 0.
        difference = ops.softmax(y_true) - ops.softmax(y_pred)
        return ops.sum(difference * (y_true - y_pred), axis=-1) / 2


def cross_entropy(labels: Tensor, logits: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """The label-smoothed cross-entropy of each label, `[batch, length]`.

    Its gradient, `p - (1 - label_smoothing) onehot(y) - label_smoothing / V`, is written by hand:
    it passes over arrays as wide as the vocabulary a few times, where automatic differentiation
    does a dozen times.
    """
    vocab_size = logits.shape[-1]

    @ops.custom_gradient
    def function(logits):
        probabilities = ops.softmax(logits)
        # The greatest probability is at least 1 / V: its logarithm is safe.
        log_partition = ops.max(logits, axis=-1) - ops.log(ops.max(probabilities, axis=-1))
        losses = log_partition - (1 - label_smoothing) * label_logits(labels, logits)
        if label_smoothing:
            losses -= label_smoothing * ops.mean(logits, axis=-1)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            share = label_smoothing / vocab_size
            # Not read from `smoothed`, so that the scatter may overwrite it in place.
            own = (label_logits(labels, probabilities) - share - 1 + label_smoothing) * upstream
            smoothed = (probabilities - share) * upstream[..., None]
            flat = ops.reshape(smoothed, (-1, vocab_size))
            places = ops.stack([ops.arange(ops.shape(flat)[0]), ops.reshape(labels, (-1,))], axis=1)
            flat = ops.scatter_update(flat, places, ops.reshape(own, (-1,)))
            return ops.reshape(flat, ops.shape(logits))

        return losses, gradient

    return function(logits)


def alignment_loss(links: Tensor, attention: Tensor, real: Tensor) -> Tensor:
    """The cross-entropy between word alignments and the attention that shall align.

    It is `-1/T sum_t sum_s A[t, s] log a[t, s]` of Garg et al. 2019, section 4.2: `A` are boolean
    links `[batch, target_length, source_length]`, divided by their number for each target token,
    `a` is the attention, and T the number of real target tokens (https://arxiv.org/abs/1909.02074).
    """
    links, attention = ops.cast(links, "float32"), ops.cast(attention, "float32")
    shares = links / ops.maximum(ops.sum(links, axis=-1, keepdims=True), 1)
    tokens = ops.maximum(ops.sum(ops.cast(real, "float32")), 1)
    # Half precision rounds small weights to 0.
    return -ops.sum(shares * ops.log(attention + 1e-6)) / tokens


def class_ids(labels: Tensor, padding_id: int) -> Tensor:
    """The labels as int32, with class 0 for padding, which need not be a class (-100)."""
    labels = ops.cast(labels, "int32")
    return ops.where(labels == padding_id, 0, labels) if padding_id else labels


def label_logits(labels: Tensor, logits: Tensor) -> Tensor:
    """The logit of each int32 label, `[batch, length]`."""
    return ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]


def check_label_dtype(dtype: DType) -> DType:
    """Returns the dtype, or raises ValueError if it would round labels."""
    name = keras.dtype_policies.get(dtype).compute_dtype if dtype else keras.config.floatx()
    if name in ("bfloat16", "float16"):
        raise ValueError(
            f"Labels are converted to the dtype, and {name} rounds large ones: leave dtype at "
            "float32. The model may compute in another."
        )
    return dtype


def token_weights(
    y_true: Tensor, padding_id: int, sample_weight: Tensor | None = None, dtype: DType = "float32"
) -> Tensor:
    """The weight of each label `[batch, length]`: 0 at padding, else its sample's weight or 1."""
    weight = ops.cast(ops.not_equal(y_true, padding_id), dtype)
    if sample_weight is not None:
        sample_weight = ops.cast(sample_weight, dtype)
        if len(sample_weight.shape) == 1:
            sample_weight = sample_weight[:, None]
        weight = weight * sample_weight
    return weight
