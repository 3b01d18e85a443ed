"""The words never repeat: not between calls, streams, threads or processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.noise import keystream
from tabularium.mechanisms.noise.keystream import KeyStream


def test_a_seed_repeats_and_another_does_not() -> None:
    assert KeyStream("a").read(64) == KeyStream("a").read(64)
    assert KeyStream("a").read(64) != KeyStream("b").read(64)
    assert KeyStream("a").insecure
    assert not KeyStream().insecure


def test_streams_of_the_operating_system_share_nothing() -> None:
    words = np.concatenate([KeyStream().words64(1000) for _ in range(20)])
    assert np.unique(words).size == words.size


def test_reading_in_pieces_is_reading_at_once() -> None:
    stream = KeyStream("pieces")
    pieces = b"".join(stream.read(length) for length in (1, 15, 17, 3, 300_000, 2, 250_000))
    assert pieces == bytes(KeyStream("pieces").read(len(pieces)))


def test_words_are_little_endian_on_every_machine() -> None:
    data = bytes(KeyStream("words").read(16))
    assert KeyStream("words").words16(8).tolist() == [data[i] | data[i + 1] << 8 for i in range(0, 16, 2)]
    assert KeyStream("words").words64(2).tolist() == [
        int.from_bytes(data[i : i + 8], "little") for i in (0, 8)
    ]


def test_the_words_are_balanced() -> None:
    bits = np.unpackbits(np.frombuffer(KeyStream("balance").read(1 << 20), dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    assert abs(np.corrcoef(bits[:-1], bits[1:])[0, 1]) < 5 / np.sqrt(bits.size)


def test_a_key_is_replaced_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keystream, "_BYTES_PER_KEY", 1 << 12)
    for seed in ("rekey", None):
        stream = KeyStream(seed)
        words = np.concatenate([stream.words64(200) for _ in range(50)])
        assert np.unique(words).size == words.size


def test_threads_never_get_the_same_words() -> None:
    for seed in ("threads", None):
        stream = KeyStream(seed)
        with ThreadPoolExecutor(8) as pool:
            words = np.concatenate(list(pool.map(lambda _: stream.words64(500), range(400))))  # noqa: B023
        assert np.unique(words).size == words.size


def test_a_stream_cannot_be_copied() -> None:
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(MechanismError, match="cannot be copied"):
            action(KeyStream("x"))


FORK = """
import os, sys, threading
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.noise.keystream import KeyStream

stream = KeyStream({seed!r})
stream.words64(10)
if {hold!r}:  # another thread is reading while the process forks
    stream._lock.acquire()
read, write = os.pipe()
child = os.fork()
if child == 0:
    try:
        os.write(write, stream.words64(100).tobytes())
    except MechanismError as error:
        os.write(write, str(error).encode())
    os._exit(0)
os.waitpid(child, 0)
if {hold!r}:
    stream._lock.release()
theirs, ours = os.read(read, 4096), stream.words64(100).tobytes()
words = {{theirs[i:i + 8] for i in range(0, len(theirs), 8)}} & {{ours[i:i + 8] for i in range(0, 800, 8)}}
print(len(theirs), len(words), b"after a fork" in theirs)
"""


@pytest.mark.parametrize("hold", [False, True], ids=["idle", "while a thread reads"])
@pytest.mark.parametrize("seed", [None, "seeded"], ids=["secure", "seeded"])
def test_a_forked_child_shares_no_words(seed: str | None, hold: bool) -> None:
    code = textwrap.dedent(FORK.format(seed=seed, hold=hold))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    length, shared, refused = done.stdout.split()
    assert shared == "0"
    assert refused == str(seed is not None)
    assert (length == "800") == (seed is None)


def test_a_fork_that_python_did_not_see_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    secure, seeded = KeyStream(), KeyStream("x")
    secure.read(8), seeded.read(8)
    before = secure._cipher
    pid = keystream.os.getpid()
    monkeypatch.setattr(keystream.os, "getpid", lambda: pid + 1)
    secure.read(8)
    assert secure._cipher is not before
    with pytest.raises(MechanismError, match="after a fork"):
        seeded.read(8)
