"""New files, written aside in the same folder and then renamed, so that none is ever incomplete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tabularium.mechanisms.errors import InputError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def written_aside(targets: Sequence[Path], *, overwrite: bool) -> Iterator[list[Path]]:
    """Give a temporary file for each target; rename them all at the end, or leave nothing behind.

    Raises
    ------
    InputError
        If a target exists and may not be replaced, or the folder does not take files.
    """
    _refuse_existing(targets, overwrite)
    asides = [target.with_name(f".{target.name}.{os.getpid()}.part") for target in targets]
    try:
        yield asides
        _refuse_existing(targets, overwrite)
        for aside, target in zip(asides, targets, strict=True):
            aside.replace(target)
    except BrokenPipeError:  # not ours: the reader of the progress has gone
        raise
    except OSError as error:
        raise _cannot_write(targets[0], error) from None
    finally:
        for aside in asides:
            with suppress(OSError):
                aside.unlink()


def _refuse_existing(targets: Sequence[Path], overwrite: bool) -> None:
    folder = targets[0].parent
    if not folder.is_dir():
        raise InputError("there is no such folder", where=str(folder), hint="make it first, or name another")
    for target in targets:
        if target.is_dir():
            raise InputError("a folder has this name", where=str(target), hint="name another file")
        if not overwrite and os.path.lexists(target):
            raise InputError("this file exists", where=str(target), hint="name another, or say --overwrite")


def _cannot_write(target: Path, error: OSError) -> InputError:
    if error.errno in _FULL:
        return InputError(
            "the disk is full", where=str(target.parent), hint="free some space, or ask for fewer rows"
        )
    return InputError("cannot write here", where=str(target.parent), hint="check the folder's permissions")
