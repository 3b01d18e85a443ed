"""Random words from a block cipher in counter mode.

AES-256-CTR under a key and a starting counter that come fresh from the operating system, one key for each
stream: a release opens a stream of its own, so no two releases share a key and no block is used twice. A
key is replaced after 2^32 blocks, long before the counter mode could be distinguished from random bits.

A stream survives ``fork``: the child's copy throws the inherited key away (a secure stream takes a new one,
a seeded stream refuses to go on), so parent and child never share a block. Reads are locked: two threads
never get the same words.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError

Words16 = NDArray[np.uint16]
Words64 = NDArray[np.uint64]

_CHUNK = 1 << 18  # bytes enciphered by one call
_ZEROS = memoryview(bytes(_CHUNK))
_BYTES_PER_KEY = 1 << 36  # 2^32 blocks of 16 bytes


class WordStream(Protocol):
    """What a sampler needs: random words of two lengths."""

    def words16(self, count: int) -> Words16:
        """Return ``count`` independent uniform 16-bit words."""

    def words64(self, count: int) -> Words64:
        """Return ``count`` independent uniform 64-bit words."""


class KeyStream:
    """Uniform random words; every call returns words that no other call returns.

    ``seed``: None for a stream keyed by the operating system's generator. A text for a repeatable,
    **insecure** stream: for tests and benchmarks only.
    """

    def __init__(self, seed: str | None = None) -> None:
        self._seed = seed
        self._label = (
            os.urandom(8).hex()
            if seed is None
            else hashlib.sha256(f"tabularium label {seed}".encode()).hexdigest()[:16]
        )
        self._lock = threading.Lock()
        self._cipher: CipherContext | None = None
        self._left = 0
        self._generation = 0
        self._process = os.getpid()
        _STREAMS.add(self)

    @property
    def label(self) -> str:
        """A name that no other secure stream has; it says nothing about the words. A seed has its own."""
        return self._label

    @property
    def insecure(self) -> bool:
        """Whether the words can be predicted by someone who knows the seed."""
        return self._seed is not None

    def words16(self, count: int) -> Words16:
        """Return ``count`` 16-bit words, shape (count,)."""
        return np.frombuffer(self.read(2 * count), dtype="<u2")

    def words64(self, count: int) -> Words64:
        """Return ``count`` 64-bit words, shape (count,)."""
        return np.frombuffer(self.read(8 * count), dtype="<u8")

    def read(self, length: int) -> bytearray:
        """Return the next ``length`` bytes of the stream.

        Raises
        ------
        MechanismError
            A seeded stream was carried into a forked process, where it would repeat its parent's words.
        """
        out = bytearray(length)
        view = memoryview(out)
        with self._lock:
            if self._process != os.getpid():  # forked behind Python's back: no hook has run
                self._forget()
            for start in range(0, length, _CHUNK):
                part = min(_CHUNK, length - start)
                self._ready(part).update_into(_ZEROS[:part], view[start : start + part])
        return out

    def _ready(self, length: int) -> CipherContext:
        if self._cipher is None or self._left < length:
            self._cipher = self._keyed()
            self._left = _BYTES_PER_KEY
        self._left -= length
        return self._cipher

    def _keyed(self) -> CipherContext:
        if self._seed is None:
            material = os.urandom(48)
        elif self._process == os.getpid():
            material = hashlib.sha384(
                f"tabularium insecure {self._generation} {self._seed}".encode()
            ).digest()
            self._generation += 1
        else:
            raise MechanismError(
                "a seeded channel cannot be used after a fork",
                where="channel",
                hint="open the channel in the process that draws",
            )
        return Cipher(algorithms.AES(material[:32]), modes.CTR(material[32:])).encryptor()

    def _forget(self) -> None:
        """Drop the key a forked child inherited, and with it every block it would have repeated."""
        self._cipher = None
        self._left = 0
        if self._seed is None:
            self._process = os.getpid()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held the old one
        self._forget()

    def __reduce__(self) -> Any:
        raise MechanismError("a key stream cannot be copied or stored", where="channel")


_STREAMS: weakref.WeakSet[KeyStream] = weakref.WeakSet()


def _child_forgets() -> None:
    for stream in list(_STREAMS):
        stream._after_fork()


os.register_at_fork(after_in_child=_child_forgets)
