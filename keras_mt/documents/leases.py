"""Leases: which of the processes, on machines that share a folder, does what."""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self

from keras_mt.files import disk_errors

# The bytes of a lease: always as many, so that to renew one takes no more of a full disk.
_WIDTH = 160


class Task(Protocol):
    """What `share` divides: something that may be done twice, since both leave the same."""

    lease: Path  # Where the lease is, in a folder that exists.

    def is_done(self) -> bool:
        """Whether somebody has done it."""

    def work(self) -> None:
        """Does it."""

    def taken(self) -> None:
        """Called when it is found that somebody else does it."""


class Leases:
    """Leases on a shared folder: each is a file that one process holds as long as it lives.

    A lease is a file that only one process can create. It has its owner's name and a number, which
    the owner raises every `seconds` / 6. Where the file has not changed for `seconds` by the
    reader's own clock, or its owner was on this machine and is gone, anybody may take it; machines'
    clocks are never compared, and locks of the file system are not needed.

    A process that was stopped for longer than `seconds` may wake up and find that another has
    taken its lease. So only what may be done twice is done under one.

    Args:
        seconds: How long a lease lasts that nobody renews.

    Example:

    >>> Path("folder").mkdir()
    >>> with Leases() as ours, Leases() as theirs:
    ...     ours.acquire(Path("folder/a")), theirs.acquire(Path("folder/a"))
    (True, False)
    """

    def __init__(self, seconds: float = 30):
        self.seconds = seconds
        self._owner = f"{_machine()} {os.getpid()} {secrets.token_hex(8)}"
        self._held = set()
        self._seen = {}  # The content of others' leases, and when it was first so.
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        for path in list(self._held):
            self.release(path)

    def acquire(self, path: Path) -> bool:
        """Takes a lease, unless somebody who is alive has it."""
        if self._create(path):
            return True
        content = _read(path)
        if content is None:  # Just released: the work may be done.
            return False
        before, since = self._seen.get(path, (None, 0.0))
        if content != before:
            before, since = self._seen[path] = content, time.monotonic()
        if time.monotonic() - since < self.seconds and not _is_gone(content):
            return False
        del self._seen[path]
        if _read(path) == content:  # Nobody else has taken it meanwhile.
            path.unlink(missing_ok=True)
        return self._create(path)

    def release(self, path: Path) -> None:
        """Gives a lease back, if it still is this process's."""
        with self._lock:
            self._held.discard(path)
            if self._owner in (_read(path) or ""):
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def waited_for(self, path: Path) -> Iterator[None]:
        """Takes a lease for a `with` block, when nobody has it any more."""
        while not self.acquire(path):
            time.sleep(min(0.5, self.seconds / 20))
        try:
            yield
        finally:
            self.release(path)

    def _create(self, path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        try:
            with disk_errors(path), open(descriptor, "wb") as file:
                file.write(self._content(0))
        except OSError:
            path.unlink(missing_ok=True)
            raise
        self._seen.pop(path, None)
        with self._lock:
            self._held.add(path)
        return True

    def _content(self, number):
        return f"{self._owner} {number}\n".ljust(_WIDTH).encode()

    def _renew(self):
        number = 0
        while not self._ended.wait(self.seconds / 6):
            number += 1
            with self._lock:
                for path in self._held:
                    # Where this fails somebody may take the lease: then it is done twice.
                    with contextlib.suppress(OSError):
                        if self._owner in (_read(path) or ""):
                            with open(path, "rb+") as file:  # No new one, if it has been taken.
                                file.write(self._content(number))


def _read(path):
    # Opened anew each time: on NFS this alone shows what another machine has written.
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _machine():
    """A name that processes have in common which see each other's ids, and no others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # Not on Linux: the process's own.
        return secrets.token_hex(8)


def _is_gone(content):
    """Whether a lease's owner was a process of this machine that has ended."""
    machine, _, rest = content.partition(" ")
    number = rest.partition(" ")[0]
    if machine != _machine() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except OSError as error:  # Also where it is not ours.
        return isinstance(error, ProcessLookupError)
    return False


def attempt(task: Task, leases: Leases) -> bool:
    """Does a task, unless it is done or somebody has its lease; returns whether it is done."""
    if task.is_done():
        return True
    if not leases.acquire(task.lease):
        return False
    try:
        if not task.is_done():
            task.work()
    finally:
        leases.release(task.lease)
    return True


def share(tasks: Iterable[Task], leases: Leases) -> Iterator[Task]:
    """Does the tasks that nobody has done, and yields each that is done, whoever did it.

    It comes back to what others have begun, to take it over if they have died.

    >>> with Leases() as leases:
    ...     list(share([], leases))
    []
    """
    tasks, waiting, looked = iter(tasks), [], time.monotonic()
    while True:
        if time.monotonic() - looked >= leases.seconds / 6:
            others, waiting = waiting, []
            for task in others:
                if attempt(task, leases):
                    yield task
                else:
                    waiting.append(task)
            looked = time.monotonic()
        task = next(tasks, None)
        if task is not None:
            if attempt(task, leases):
                yield task
            else:
                waiting.append(task)
                task.taken()
        elif waiting:
            time.sleep(min(0.5, leases.seconds / 20))
            looked = 0
        else:
            return
