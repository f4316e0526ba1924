"""Models of the Hugging Face hub, by name."""

import importlib.util
import os
import re
from pathlib import Path

# What is read of a model on the hub: these files, and the first of the weights that it has.
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
    return _downloaded(str(directory))


def _downloaded(name):
    """The folder of a model of the hub, in the cache of huggingface_hub."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        # One kind of weights after the other: what there is cannot be asked for without a network,
        # and then huggingface_hub gives what its cache has.
        for weights in _WEIGHTS:
            patterns = [*_FILES, weights]
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=patterns))
            if any(folder.glob(weights)):
                break
        return folder
    except errors.GatedRepoError:
        raise PermissionError(
            f"{name} is for those who have agreed to its terms: agree to them on the hub's page of "
            "the model, then `hf auth login`, or set HF_TOKEN."
        ) from None
    except errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"There is neither a folder {name} nor a model of this name on the hub. If it is "
            "private, `hf auth login` first, or set HF_TOKEN."
        ) from None
    except Exception as error:  # Those of a broken connection are of another package.
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise OSError(
            f"There is no folder {name}, and it cannot be fetched from the hub: {reason}. Try "
            f"again, or run `hf download {name}` where there is a network: give the path of the "
            "folder that it prints."
        ) from error
