"""Models with presets, made again from their configs with the state of their layers."""

from typing import Any, ClassVar, Self

import keras

from keras_mt.layers.base import quantization, quantize_again


class ModelMixin:
    """A mixin for Keras models: presets, and configs that keep what is frozen or quantized.

    Attributes:
        presets: Known sizes by name, of which training takes the first by default: each
            `{"model": arguments of the constructor, "training": options of the training}`.
    """

    presets: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {}

    @classmethod
    def from_preset(cls, preset: str, **kwargs: Any) -> Self:
        """A model of a known size: `"tiny"`, say.

        Args:
            preset: Name of one of the class's `presets`.
            **kwargs: `vocab_size`, and any argument of the constructor that shall differ.

        Returns:
            An untrained model.

        Raises:
            ValueError: If there is no such preset.

        Example:

        >>> from keras_mt import Transformer
        >>> Transformer.from_preset("tiny", vocab_size=1000).count_params()
        1453056
        """
        if preset not in cls.presets:
            raise ValueError(f"Unknown preset {preset!r}; there are {', '.join(cls.presets)}.")
        return cls(**{**cls.presets[preset]["model"], **kwargs})

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        config = dict(config)
        frozen, quantized = config.pop("frozen", []), config.pop("quantized", {})
        model = super().from_config(config, custom_objects)
        if quantized:
            quantize_again(ensure_built(model), quantized)
        for name in frozen:
            model.get_layer(name).trainable = False
        return model


def layer_states(model: keras.Model) -> dict[str, Any]:
    """For a model's config: which of its layers are frozen, and which are quantized."""
    frozen = [layer.name for layer in model.layers if not layer.trainable]
    return {"frozen": frozen, **quantization(model)}


def ensure_built(model: keras.Model) -> keras.Model:
    """The model, with its weights: one that only a call builds is called once.

    Args:
        model: A model; if it is not built, it is called on one `source` and one `target`.

    Returns:
        The same model.

    Example:

    >>> model = keras.Sequential([keras.layers.Dense(2)])
    >>> ensure_built(keras.Sequential([keras.Input((3,)), *model.layers])).count_params()
    8
    """
    if not model.built:
        tokens = keras.ops.ones((1, 2), "int32")
        model({"source": tokens, "target": tokens})
    return model
