"""Signs seals with Ed25519 (RFC 8032), by a key that is kept elsewhere than the data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_LIBRARY = "signatures need the package `cryptography`, which is not installed here"


class SigningKey:
    """An Ed25519 key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def of_pem(cls, pem: str) -> SigningKey:
        """The key of a PEM text, as `opx seal --new-key` writes it. Raises `InvalidInputError`."""
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError as exc:
            raise InvalidInputError(_LIBRARY) from exc
        try:
            key = load_pem_private_key(pem.encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
            raise InvalidInputError("the signing key is no private key in PEM form without a password") from exc
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInputError("the signing key is none of Ed25519: `opx seal --new-key FILE` makes one")
        return cls(key)

    @property
    def public(self) -> str:
        """The public key, 64 hex digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature in hex."""
        return self._key.sign(message).hex()


def is_signed(message: bytes, signature: str, public_key: str) -> bool:
    """True if the signature is that of the public key. Raises `InvalidInputError` for a malformed key."""
    from cryptography.exceptions import InvalidSignature

    key = _public(public_key)
    try:
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _public(text: str) -> Ed25519PublicKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as exc:
        raise InvalidInputError(_LIBRARY) from exc
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError as exc:
        raise InvalidInputError("a public key of Ed25519 has 64 hex digits") from exc


def write_new_key(path: Path) -> SigningKey:
    """Writes a new private key to a file that only its owner can read. Raises `InvalidInputError` if the file exists."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError as exc:
        raise InvalidInputError(_LIBRARY) from exc
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
    except FileExistsError as exc:
        raise InvalidInputError(f"{path} exists already: a key never replaces a file") from exc
    except OSError as exc:
        raise InvalidInputError(f"{path} can't be written: {exc.strerror or exc}") from exc
    return SigningKey(key)
