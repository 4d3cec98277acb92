"""Merkle tree hashes as in RFC 6962, section 2.1: hashes of leaves and of nodes have different prefixes, so that no list of
leaves has the root of another one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_LEAF, _NODE = b"\x00", b"\x01"


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(_LEAF + data).digest()


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """The root over hashes of leaves, in their order. Without leaves, the hash of nothing.

    The tree is split at the largest power of two below the number of leaves. Folding a stack of complete subtrees gives the
    same tree without recursion.
    """
    if not leaves:
        return hashlib.sha256().digest()
    stack: list[tuple[int, bytes]] = []
    for leaf in leaves:
        stack.append((1, leaf))
        while len(stack) > 1 and stack[-1][0] == stack[-2][0]:
            stack[-2:] = [_joined(stack[-2], stack[-1])]
    while len(stack) > 1:
        stack[-2:] = [_joined(stack[-2], stack[-1])]
    return stack[0][1]


def _joined(left: tuple[int, bytes], right: tuple[int, bytes]) -> tuple[int, bytes]:
    return left[0] + right[0], hashlib.sha256(_NODE + left[1] + right[1]).digest()
