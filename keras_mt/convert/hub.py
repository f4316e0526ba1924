"""Models of the Hugging Face hub, by name."""

import contextlib
import fcntl
import os
import re
import sys
from pathlib import Path

from keras_mt.extras import require
from keras_mt.files import remove_leftovers

# The files of a model that are read: these, and the first of the weights that it has.
_FILES = (
    "README.md", "added_tokens.json", "config.json", "generation_config.json",
    "model.safetensors.index.json", "sentencepiece.bpe.model", "source.spm", "spiece.model",
    "target.spm", "target_vocab.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
)  # fmt: skip
# No name on the hub has `--`, which stands for the slash in the names of its cache, and in ours.
_NAME = re.compile(r"(?!.*--)(?:(?:hf:)?(\w[\w.-]*/\w[\w.-]*)|hf:(\w[\w.-]*))")
_WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")


def hub_name(model: str | os.PathLike) -> str | None:
    """The name on the hub that OWNER/NAME or hf:NAME is; None for a path.

    What exists is a path, and so is OWNER/NAME where there is a folder OWNER.
    """
    path, match = Path(model), _NAME.fullmatch(str(model))
    if not match or path.exists() or (path.parent.name and path.parent.exists()):
        return None
    return match[1] or match[2]


def local_run(model: str | os.PathLike) -> Path:
    """The folder of a run; a model of the hub is imported once, into the user's cache."""
    name = hub_name(model)
    if name is None:
        return Path(model)
    import platformdirs

    from keras_mt.convert.card import read_card
    from keras_mt.convert.imports import import_model
    from keras_mt.run_folder import SCHEMA

    runs = platformdirs.user_cache_path("keras_mt", version=f"runs_{SCHEMA}", ensure_exists=True)
    run = runs / name.replace("/", "--")
    if run.exists():
        return run
    with open(runs / f".{run.name}.lock", "w") as lock:
        with contextlib.suppress(OSError):  # Where the file system has no locks.
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not run.exists():  # Unless another process has just imported it.
            remove_leftovers(run)
            folder = local_folder(model)
            print(f"{name}: {read_card(folder)}\nimporting it into {run}", file=sys.stderr)
            import_model(folder, run)
    return run


def local_folder(directory: str | os.PathLike) -> Path:
    """The folder, or that of a model of the hub, which is fetched.

    OSError if that fails, MissingError without huggingface_hub.
    """
    path, name = Path(directory), hub_name(directory)
    if path.is_dir():
        return path
    if name is None:
        raise FileNotFoundError(
            f"There is no folder {path}, nor is that a name on the hub, which is OWNER/NAME, or "
            "hf:OWNER/NAME where there is a folder OWNER."
        )
    what = f"There is no folder {path}. If it is a model's name on the hub, fetching it"
    huggingface_hub = require("huggingface_hub", "hub", what)
    try:
        # One kind of weights after the other: what there is cannot be asked for without a network,
        # and then huggingface_hub gives what its cache has.
        for weights in _WEIGHTS:
            patterns = [*_FILES, weights]
            folder = huggingface_hub.snapshot_download(name, allow_patterns=patterns)
            if any(Path(folder).glob(weights)):
                break
    except Exception as error:  # The errors of a broken connection are another package's.
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise OSError(
            f"There is no folder {directory}, and it cannot be fetched from the hub: {reason}. If "
            "it is private, or for those who agree to its terms, do that on its page, then `hf "
            "auth login`. Without a network here, give the path of the folder that `hf download "
            f"{name}` prints where there is one."
        ) from error
    return Path(folder)
