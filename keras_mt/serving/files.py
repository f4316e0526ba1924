"""Files of clients: translated in threads, fetched once, and deleted."""

import asyncio
import collections
import concurrent.futures
import dataclasses
import functools
import hmac
import itertools
import logging
import secrets
import shutil
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from keras_mt.documents import translate_files
from keras_mt.documents.registry import FORMATS
from keras_mt.errors import InputError
from keras_mt.serving.texts import Wish

if TYPE_CHECKING:  # It imports this module.
    from keras_mt.serving.app import Service

_log = logging.getLogger("keras_mt.serving")
SUFFIXES = tuple(itertools.chain.from_iterable(FORMATS.values()))
_MOST = 100  # The files that a user may have here.
_KEPT = 3600  # Seconds until a translation that nobody fetches is deleted.
_SIDE_BY_SIDE, _THREADS = 2, 32  # The files that are translated at once, of a user and of all.
_PART = 100  # The texts of a file that wait for workers at once.


@dataclasses.dataclass(eq=False)
class File:
    """A file that is being translated, or was.

    Attributes:
        user: The name of who sent it.
        folder: A folder of its own.
        suffix: That of its name, which tells its format.
        wish: How it is to be translated; the source is "" until that is known.
        id, key: What clients name it by, and what only its sender knows.
        characters: The number of characters that were translated.
        task: Its translation, which ends in what became of its texts: how many they are, and how
            many were `refused`; or in an HTTPException. If it is cancelled, so is the translation.
    """

    user: str
    folder: Path
    suffix: str
    wish: Wish
    id: str
    key: str = dataclasses.field(default_factory=lambda: secrets.token_hex(32).upper())
    characters: int = 0
    task: asyncio.Task[dict[str, Any]] | None = None
    call: concurrent.futures.Future | None = None  # The texts that it waits for.


class Files:
    """Translates files, each in a private folder of its own, by the models of a `Service`."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._all: dict[str, File] = {}
        self._turns = collections.defaultdict(lambda: asyncio.Semaphore(_SIDE_BY_SIDE))
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS)

    async def begin(self, upload: Any, wish: Wish, user: str, name: str | None = None) -> File:
        """Begins to translate an upload; HTTPException says what is wrong with it.

        The source of the wish may be "": the language that the texts seem to have. A name counts
        before that of the upload.
        """
        suffix = Path(name or getattr(upload, "filename", None) or "").suffix.lower()
        if not isinstance(upload, UploadFile) or suffix not in SUFFIXES:
            raise HTTPException(400, f"file: a file with a name in {', '.join(SUFFIXES)} is needed")
        if wish.source:
            self._service.planned(user, wish, [])
        data, id = await upload.read(), secrets.token_hex(16).upper()
        own = [file for file in self._all.values() if file.user == user]
        if len(own) >= _MOST:
            # One that failed has no folder.
            failed = next((file for file in own if not file.folder.exists()), None)
            if failed is None:
                message = f"there are {_MOST} files: fetch those that are done"
                raise HTTPException(429, message, {"Retry-After": "10"})
            self.remove(failed)
        file = File(user, self._service.settings.folder / id, suffix, wish, id)
        file.folder.mkdir(0o700)
        (file.folder / f"file{suffix}").write_bytes(data)
        file.task = asyncio.create_task(self._run(file))
        file.task.add_done_callback(functools.partial(self._keep, file))
        self._all[id] = file
        return file

    def find(self, id: str, key: str) -> File:
        """The file of an id and its key; HTTPException if there is none, or no longer."""
        file = self._all.get(id)
        if file is None or not hmac.compare_digest(file.key.encode(), key.encode()):
            raise HTTPException(404, "there is no such file; one that was fetched is deleted")
        return file

    def take(self, file: File) -> bytes:
        """The translation of a file that is done, which is deleted; HTTPException if it failed."""
        file.task.result()
        data = (file.folder / "translated" / f"file{file.suffix}").read_bytes()
        self.remove(file)
        return data

    def remove(self, file: File) -> None:
        """Deletes a file."""
        self._all.pop(file.id, None)
        shutil.rmtree(file.folder, ignore_errors=True)

    def _keep(self, file, task):
        """Keeps a file for a while, if its sender has not gone away."""
        is_gone = task.cancelled()
        if not is_gone and (error := task.exception()):  # Which asyncio logs if nobody asks.
            traceback.clear_frames(error.__traceback__)  # They hold the texts.
        asyncio.get_running_loop().call_later(0 if is_gone else _KEPT, self.remove, file)

    async def _run(self, file):
        try:
            loop = asyncio.get_running_loop()
            async with self._turns[file.user]:
                return await loop.run_in_executor(self._threads, self._translate, file, loop)
        finally:
            if file.call:
                file.call.cancel()

    def _translate(self, file, loop):
        """Translates a file in a thread, and removes it; returns what became of its texts."""
        source = file.folder / f"file{file.suffix}"
        try:
            [counts] = translate_files(
                functools.partial(self._translations, file, loop),
                [source],
                file.folder / "translated",
                {},
                part_lines=_PART,
                target_language=file.wish.target,
            ).values()
            if "error" in counts:
                raise InputError(counts["error"])
            source.unlink()
            return counts
        except BaseException as error:
            shutil.rmtree(file.folder, ignore_errors=True)
            if isinstance(error, InputError):
                # Without the server's own paths.
                message = str(error).replace(str(source), "the file")
                message = message.replace(str(file.folder), "the folder")
                raise HTTPException(400, message) from None
            if isinstance(error, HTTPException) or file.task.cancelling():
                raise
            where = "".join(traceback.format_tb(error.__traceback__))  # Without texts.
            _log.error("a file could not be translated", extra={"trace": where})
            raise HTTPException(500, "the file could not be translated; the log has more") from None

    def _translations(self, file, loop, texts):
        """A translation of each text, and why some have none."""
        file.wish = self._service.with_source(file.wish, "\n".join(texts))
        pool, plans = self._service.planned(file.user, file.wish, texts)
        file.call = asyncio.run_coroutine_threadsafe(self._answers(file, pool, plans), loop)
        found, reasons = [], {}
        for i, (plan, answers) in enumerate(zip(plans, file.call.result(), strict=True)):
            try:
                found.append(plan.translation(answers).text)
            except HTTPException as error:
                if error.status_code != 400:
                    raise
                found.append(None)
                reasons[i] = error.detail
        return found, reasons

    async def _answers(self, file, pool, plans):
        if file.task.cancelling():
            raise asyncio.CancelledError
        file.characters += sum(plan.characters for plan in plans)
        return await self._service.answers(file.user, pool, plans, waits=True)
