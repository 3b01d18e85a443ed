"""Officers' keys and signatures: Ed25519 over the canonical JSON of a statement.

A statement names the ledger (by the hash of its first entry), what is decided, and a turn: how many
decisions on the same thing came before. So a signature is good for one ledger, one decision and once; an old
one cannot be put in again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tabularium.ledger import durable_files
from tabularium.ledger.events import SIGNED, canonical
from tabularium.ledger.refusals import BadValue, StorageFailed

_CONTEXT = "tabularium ledger 1"
_KEY, _SIGNATURE = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{128}")
_PRIME = 2**255 - 19
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME


def statement(ledger: str, kind: str, fields: Mapping[str, Any]) -> bytes:
    """Return what is signed.

    ``ledger``: hash of the ledger's first entry; zeros while there is none.
    """
    signed = {name: fields[name] for name in SIGNED[kind] if name in fields}
    return canonical({**signed, "context": _CONTEXT, "kind": kind, "ledger": ledger}).encode("ascii")


def is_signed(public_key: str, signature: str, ledger: str, kind: str, fields: Mapping[str, Any]) -> bool:
    """Whether ``signature`` signs ``fields`` under ``public_key`` (both hexadecimal)."""
    if not (_KEY.fullmatch(public_key) and _SIGNATURE.fullmatch(signature)):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), statement(ledger, kind, fields))
    except (ValueError, InvalidSignature):
        return False
    return True


def can_sign(public_key: str) -> bool:
    """Whether a public key (hexadecimal) can only be signed for with the private one.

    For a point of small order signatures are known that fit every statement. With the curve
    -x² + y² = 1 + dx²y², the order divides 8 just where y is 0, 1 or -1, or dy⁴ + 2y² = 1: then doubling the
    point gives one with y = 0. (RFC 8032, section 5.1.)
    """
    if not _KEY.fullmatch(public_key):
        return False
    y = (int.from_bytes(bytes.fromhex(public_key), "little") % 2**255) % _PRIME
    return y not in (0, 1, _PRIME - 1) and (_D * y**4 + 2 * y**2 - 1) % _PRIME != 0


def checked_public(value: object) -> str:
    """Return a public key in small letters, or raise ``BadValue`` if it is none that can be enrolled."""
    if isinstance(value, str) and can_sign(value.lower()):
        return value.lower()
    raise BadValue(
        "is not an Ed25519 public key (32 bytes in hexadecimal, and no point of small order)",
        where="public_key",
        hint="make one with: tabularium ledger keys new",
    )


def key_id(public_key: str) -> str:
    """Return the short name of a public key: the beginning of its SHA-256."""
    return sha256(bytes.fromhex(public_key)).hexdigest()[:32]


def public_hex(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """Return the 32 bytes of a public key, or of a private key's public half, in hexadecimal."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()


def make_key(path: Path, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """Make a private key in a new file, mode 0600 (PKCS 8, PEM)."""
    if path.exists():
        raise BadValue("is there already", where=str(path), hint="name a new file")
    key = Ed25519PrivateKey.generate()
    hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        hidden = serialization.BestAvailableEncryption(passphrase)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
    try:
        durable_files.create(path, pem)
    except OSError:
        raise StorageFailed("cannot be written", where=str(path), hint="check the folder") from None
    return key


def private_from(pem: bytes, passphrase: bytes | None = None) -> Ed25519PrivateKey | None:
    """Return the private key that a PEM holds, or ``None`` if it holds no Ed25519 key under a passphrase."""
    try:
        key = serialization.load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def read_private(path: Path, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """Read an officer's private key.

    Raises ``BadValue`` if there is no such file, it holds no Ed25519 key, or needs another passphrase.
    """
    _require_file(path)
    try:
        key = private_from(path.read_bytes(), passphrase)
    except OSError:
        key = None
    if key is None:
        raise BadValue(
            "is no Ed25519 private key, or needs another passphrase",
            where=str(path),
            hint="give the PEM file that `tabularium ledger keys new` made, and its passphrase in "
            "TABULARIUM_KEY_PASSPHRASE",
        )
    return key


def _require_file(path: Path) -> None:
    if not path.exists():
        raise BadValue(
            "there is no such file",
            where=str(path),
            hint="name the PEM file of a key; `tabularium ledger keys new` makes one",
        )


def read_public(path: Path) -> str:
    """Read a public key (PEM), or the public half of an unencrypted private one, as hexadecimal."""
    _require_file(path)
    try:
        data = path.read_bytes()
        if b"PRIVATE" in data:
            return public_hex(read_private(path))
        key = serialization.load_pem_public_key(data)
    except (OSError, ValueError):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BadValue("is no Ed25519 public key", where=str(path), hint="give a PEM file")
    return public_hex(key)


def public_pem(public_key: str) -> str:
    """Return a public key as PEM."""
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode("ascii")
