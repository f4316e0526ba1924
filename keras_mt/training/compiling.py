"""Compiling a translator for training."""

import keras
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.layers.validation import check_positive
from keras_mt.losses import CrossEntropy
from keras_mt.metrics import Perplexity, TokenAccuracy
from keras_mt.models import Seq2Seq
from keras_mt.schedules import WarmupInverseSquareRoot
from keras_mt.training import replicas


def compile_for_translation(
    model: keras.Model,
    label_smoothing: float = 0.1,
    warmup_steps: int = 4000,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None = None,
    clip_norm: float | None = None,
    gradient_accumulation_steps: int = 1,
    rdrop_weight: float = 0.0,
) -> None:
    """Compiles a model as Vaswani et al. 2017 train a Transformer.

    With Adam (0.9, 0.98, 1e-9) under the warm-up schedule, label-smoothed cross-entropy over the
    real tokens, token accuracy and perplexity.

    With R-Drop the loss of a training step is `(loss + other_loss + weight * divergence) / 2`:
    the other logits come from the same batch under another dropout mask, and the divergence is the
    symmetric one between both. That is half of the paper's sum, to stay on the scale of the loss.

    Args:
        model: A `keras_mt.Transformer`, or another model from source and target to logits. Its
            `d_model`, 512 where it has none, scales the schedule.
        label_smoothing: Share of the label that is spread over the vocabulary.
        warmup_steps: Number of updates over which the learning rate rises.
        learning_rate: The learning rate at the end of the warm-up; None for the paper's,
            `(d_model * warmup_steps)^-0.5`. Or another schedule, such as `WarmupLinearDecay`, with
            its own warm-up.
        clip_norm: The global norm to which gradients are clipped; None for no clipping.
        gradient_accumulation_steps: Number of batches that make one update, as if they were one.
        rdrop_weight: Weight of the R-Drop loss, for models with dropout; it costs a second forward
            pass. 0 for none; Liang et al. 2021 use 5 for translation.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 5
        (https://arxiv.org/abs/1706.03762); Liang et al. 2021, R-Drop: Regularized Dropout for
        Neural Networks (https://arxiv.org/abs/2106.14448).

    Example:

    >>> from keras_mt import Transformer
    >>> model = Transformer(vocab_size=9, num_layers=1, d_model=8, num_heads=2, d_ff=8)
    >>> compile_for_translation(model, warmup_steps=400, rdrop_weight=5)
    >>> type(model.optimizer).__name__
    'Adam'
    """
    if not rdrop_weight >= 0:
        raise InputError(f"rdrop_weight must be at least 0. Received: rdrop_weight={rdrop_weight}")
    check_positive(gradient_accumulation_steps=gradient_accumulation_steps)
    d_model, padding_id = getattr(model, "d_model", 512), getattr(model, "padding_id", 0)
    if rdrop_weight and not isinstance(model, Seq2Seq):
        raise InputError(f"rdrop_weight needs a Seq2Seq model, not a {type(model).__name__}.")
    if isinstance(model, Seq2Seq):
        model.rdrop_weight, model.divergence = rdrop_weight, replicas.CountedDivergence()
    if not isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        learning_rate = WarmupInverseSquareRoot(d_model, warmup_steps, learning_rate)
    adam = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, "global_clipnorm": clip_norm}
    loss = {"label_smoothing": label_smoothing, "padding_id": padding_id}
    if gradient_accumulation_steps > 1:
        optimizer = replicas.AccumulatedAdam(learning_rate, gradient_accumulation_steps, **adam)
        loss = replicas.CountedCrossEntropy(optimizer, **loss)
    elif tf.distribute.get_strategy().num_replicas_in_sync > 1:
        optimizer = replicas.ReplicatedAdam(learning_rate, **adam)
        loss = replicas.CountedCrossEntropy(**loss)
    else:
        optimizer, loss = keras.optimizers.Adam(learning_rate, **adam), CrossEntropy(**loss)
    model.compile(
        optimizer=optimizer,
        loss=loss,
        metrics=[TokenAccuracy(padding_id), Perplexity(padding_id)],
        # XLA compiles each batch shape anew for half a minute: more than it saves on short runs.
        jit_compile=False,
    )
