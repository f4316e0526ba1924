"""Models with presets, made again from their configs with the state of their layers."""

from typing import Any, ClassVar, Self

import keras

from keras_mt.layers.layer import arguments_of, config_of


class ModelMixin:
    """A mixin for Keras models: presets, and configs that keep which layers are frozen.

    Training takes the first of the `presets` by default.
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
        frozen = config.pop("frozen", [])
        model = super().from_config(config, custom_objects)
        for name in frozen:
            model.get_layer(name).trainable = False
        return model


class RecordedModel(ModelMixin):
    """A mixin for our own architectures, which keeps their constructors' arguments."""

    def _functional_arguments(self, scope):
        """`arguments_of` a functional model's constructor, and the dtype policy for its layers.

        It refuses others, which a functional model would ignore.
        """
        if unknown := scope["kwargs"].keys() - {"name", "trainable", "activity_regularizer"}:
            raise TypeError(f"{type(self).__name__} has no argument {min(unknown)!r}.")
        policy = keras.dtype_policies.get(scope["dtype"] or keras.config.dtype_policy())
        return arguments_of(scope), policy

    def _record(self, arguments: dict[str, Any], policy: keras.DTypePolicy | None = None) -> None:
        """Keeps the arguments, of `arguments_of`, and sets the attributes that others ask for.

        A functional model is told its dtype policy too.
        """
        self._config = config_of(arguments)
        self.dtype_policy = policy or self.dtype_policy
        for name in ("vocab_size", "d_model", "max_length", "padding_id"):
            setattr(self, name, arguments[name])
        self.source_vocab_size = self.vocab_size
        self.target_vocab_size = arguments.get("target_vocab_size") or self.vocab_size

    def get_config(self) -> dict[str, Any]:
        frozen = [layer.name for layer in self.layers if not layer.trainable]
        return {**super().get_config(), **self._config, "frozen": frozen}


def preset(
    num_layers: int,
    d_model: int,
    num_heads: int,
    d_ff: int,
    *,
    batch_tokens: int = 4096,
    **others: Any,
) -> dict[str, dict[str, Any]]:
    """An entry of `presets` for a Transformer; `others` are more arguments of the model."""
    sizes = {"num_layers": num_layers, "d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}
    training = {"label_smoothing": 0.1, "warmup_steps": 4000, "batch_tokens": batch_tokens}
    return {"model": {**sizes, **others}, "training": training}


def block_options(arguments: dict[str, Any], policy: keras.DTypePolicy) -> dict[str, Any]:
    """The arguments of a model's blocks, among the model's."""
    names = "dropout", "activation", "pre_norm", "norm", "gated", "use_bias"
    names += "num_key_value_heads", "key_dim", "scale_attention", "norm_epsilon"
    return {"dtype": policy, **{n: arguments[n] for n in names if n in arguments}}


def embedding_options(arguments: dict[str, Any], policy: keras.DTypePolicy) -> dict[str, Any]:
    """The arguments of a model's embeddings, among the model's."""
    names = "vocab_size", "d_model", "max_length", "padding_id"
    return {"dtype": policy, **{n: arguments[n] for n in names}}


def ensure_built(model: keras.Model) -> keras.Model:
    """The model, with its weights: one that only a call builds is called once."""
    if not model.built:
        tokens = keras.ops.ones((1, 2), "int32")
        model({"source": tokens, "target": tokens})
    return model
