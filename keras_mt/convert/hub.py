"""Models of the Hugging Face hub, by name."""

import importlib.util
import os
import re
from pathlib import Path

# The files of a model that are read: these, and the first of the weights that it has.
_FILES = (
    "README.md", "added_tokens.json", "config.json", "generation_config.json",
    "model.safetensors.index.json", "sentencepiece.bpe.model", "source.spm", "spiece.model",
    "target.spm", "target_vocab.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
)  # fmt: skip
_WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")


def local_folder(directory: str | os.PathLike) -> Path:
    """The folder, or that of a model OWNER/NAME of the hub, which is fetched; else OSError."""
    path = Path(directory)
    if path.is_dir():
        return path
    if path.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(directory)):
        raise FileNotFoundError(
            f"There is no folder {path}, nor is that a name on the hub, which is OWNER/NAME."
        )
    if importlib.util.find_spec("huggingface_hub") is None:
        raise FileNotFoundError(
            f"There is no folder {path}. If it is the name of a model on the hub, "
            "pip install 'keras_mt[hub]' to download it."
        )
    import huggingface_hub

    try:
        # One kind of weights after the other: what there is cannot be asked for without a network,
        # and then huggingface_hub gives what its cache has.
        for weights in _WEIGHTS:
            patterns = [*_FILES, weights]
            folder = huggingface_hub.snapshot_download(str(directory), allow_patterns=patterns)
            if any(Path(folder).glob(weights)):
                break
    except Exception as error:  # The errors of a broken connection are another package's.
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise OSError(
            f"There is no folder {directory}, and it cannot be fetched from the hub: {reason}. If "
            "it is private, or for those who agree to its terms, do that on its page, then `hf "
            "auth login`. Without a network here, give the path of the folder that `hf download "
            f"{directory}` prints where there is one."
        ) from error
    return Path(folder)
