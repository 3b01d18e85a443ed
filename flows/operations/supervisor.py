"""Keeping processes running: one that dies is started again, and at the end none is left.

A process that dies leaves its children behind; they belong to their next keeper, so that a run
that outlives its worker is neither lost nor forgotten at the end. Should the keeper itself be killed, what it
keeps is asked to stop by the kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_GRACE = 15.0  # seconds between asking a process to stop and killing it
_LONGEST_PAUSE = 30.0
_STEADY = 60.0  # seconds after which a process counts as having started well
_MOST_BYTES = 10_000_000  # of a log; what a larger one holds is put aside, in the place of what was before
_LOG_SECONDS = 60.0  # between two looks at the size of a log
_LAST_BYTES, _LONGEST = 4096, 300
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None)


@dataclass
class ManagedProcess:
    """A process that is kept running.

    Attributes
    ----------
    name
        What operators call it; its log has this name.
    handles
        Files and sockets of the keeper that the process inherits, each time it is started.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    folder: Path
    handles: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    _failures: int = 0
    _started: float = 0.0
    _due: float = 0.0
    _log_seen: float = 0.0

    def start(self) -> None:
        """Start the process, in a session of its own: Ctrl-C at the terminal is not for it."""
        log = self.log
        log.parent.mkdir(mode=0o700, exist_ok=True)
        with log.open("ab") as file:
            log.chmod(0o600)
            self.process = subprocess.Popen(  # noqa: S603 - this very Python
                self.command,
                env=self.environment,
                cwd=self.folder,
                pass_fds=self.handles,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
                preexec_fn=end_with_the_keeper,  # noqa: PLW1509 - the keeper has one thread
            )
        self._started = time.monotonic()

    def ended(self) -> int | None:
        """Return how the process ended, if it was started and has."""
        return None if self.process is None else self.process.poll()

    def look_after(self, say: Callable[[str], None]) -> None:
        """Start the process again some time after it has died; failures in a row make the pause longer."""
        now = time.monotonic()
        if now - self._log_seen > _LOG_SECONDS:
            self._log_seen = now
            self._put_log_aside()
        code = self.ended()
        if code is None:
            return
        if not self._due:
            self._failures = 1 if now - self._started > _STEADY else self._failures + 1
            pause = min(2.0 ** (self._failures - 1), _LONGEST_PAUSE)
            self._due = now + pause
            how = f"was killed (signal {-code})" if code < 0 else f"ended (code {code})"
            say(f"the {self.name} {how}; it is started again in {pause:.0f} s{self._last_words()}")
        elif now >= self._due:
            self._due = 0.0
            self.start()

    @property
    def log(self) -> Path:
        """The file that holds what the process says."""
        return self.folder / "logs" / f"{self.name}.log"

    def _put_log_aside(self) -> None:
        """Copy a full log and empty it; the process appends, and so goes on in the same file."""
        with contextlib.suppress(OSError):
            if self.log.stat().st_size > _MOST_BYTES:
                aside = self.log.with_suffix(".log.1")
                try:
                    shutil.copy(self.log, aside)
                except OSError:  # a full disk is not to stay full for a copy's sake
                    aside.unlink(missing_ok=True)
                os.truncate(self.log, 0)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
            lines = file.read().decode(errors="replace").split("\n")
            words = [line.strip() for line in lines if any(map(str.isalnum, line))]
            if words:
                return f"; its last words: {words[-1][:_LONGEST]} (more in {self.log})"
        return ""


@dataclass
class Supervisor:
    """Keeps processes running until it is stopped.

    Attributes
    ----------
    say
        Called with a line for each thing that happens to them.
    on_stop
        What is done at the end when only the first process is left, which the others need.
    """

    say: Callable[[str], None]
    on_stop: Callable[[], None] = lambda: None
    parts: list[ManagedProcess] = field(default_factory=list)

    def start(self, part: ManagedProcess) -> None:
        """Start a process, and keep it running from now on."""
        self.parts.append(part)
        part.start()

    def look_after(self) -> None:
        """Start again what has died, and bury what it left behind."""
        for part in self.parts:
            part.look_after(self.say)
        self._reap_orphans()

    def _reap_orphans(self) -> None:
        """Bury orphans that have ended, without a look at those that live: this is done all day and night."""
        kept = self._kept()
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):  # nobody is left at all
            while (ended := os.waitid(os.P_ALL, 0, how)) is not None and ended.si_pid not in kept:
                os.waitpid(ended.si_pid, os.WNOHANG)

    def stop(self) -> None:
        """Stop every process and what they left behind, the one that was started first as the last."""
        for part in reversed(self.parts[1:]):
            _stop(part)
        self._stop_orphans()
        for first in self.parts[:1]:
            if first.ended() is None:
                self.on_stop()
            _stop(first)

    def _stop_orphans(self) -> None:
        end = time.monotonic() + _GRACE
        number = signal.SIGTERM
        while orphans := self._orphans():
            for orphan in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(orphan, number)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(orphan, os.WNOHANG)
            if time.monotonic() > end:
                number = signal.SIGKILL
            time.sleep(0.2)

    def _orphans(self) -> list[int]:
        kept = self._kept()
        return [child for child in _children(os.getpid()) if child not in kept]

    def _kept(self) -> set[int]:
        return {part.process.pid for part in self.parts if part.process is not None}


@contextlib.contextmanager
def keeping(say: Callable[[str], None]) -> Iterator[Supervisor]:
    """Yield a keeper whose processes end with the block, however it ends."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = Supervisor(say)
    try:
        yield keeper
    finally:
        asked = [
            (number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        ]
        for number, _ in asked:
            signal.signal(number, signal.SIG_IGN)  # it is being done
        keeper.stop()
        for number, before in asked:
            signal.signal(number, before)


def _stop(part: ManagedProcess) -> None:
    if part.process is None:
        return
    process = part.process
    runs = _children(process.pid)
    if runs:  # a worker would kill them at once, and start again what has ended
        process.send_signal(signal.SIGSTOP)
        for run in runs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(run, signal.SIGTERM)
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and not all(_has_ended(run) for run in runs):
            time.sleep(0.1)
    process.terminate()
    process.send_signal(signal.SIGCONT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    process.kill()
    process.wait()


def end_with_the_keeper() -> None:
    """Have the kernel ask this process to stop when the one that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _children(parent: int) -> list[int]:
    """Return the processes whose parent is ``parent``."""
    everybody = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [process for process in everybody if _about(process)[1:2] == [str(parent)]]


def _has_ended(process: int) -> bool:
    return _about(process)[:1] in ([], ["Z"])


def _about(process: int) -> list[str]:
    """Return what the system says of a process, its state and parent first; nothing of one that is gone."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()  # a program's name may hold anything
