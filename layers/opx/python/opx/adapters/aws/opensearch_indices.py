"""Creation and inspection of the index, apart from reading and writing it: other rights, another time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from opensearchpy import OpenSearch, OpenSearchException, RequestError

from opx.adapters.aws.opensearch_schema import identity, index_body
from opx.errors import IncompatibleIndexError, IndexUnavailableError

_ALREADY_THERE = "resource_already_exists_exception"


def ensure_index(
    client: OpenSearch,
    index_name: str,
    *,
    model_id: str,
    dimension: int,
    wait_seconds: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Create the index unless it is there, and wait until it can be used; true if it was created here.

    A new index appears after up to 15 seconds. Raises `IncompatibleIndexError` if there is one for another model,
    dimension or analyzer, and `IndexUnavailableError` if it doesn't appear within `wait_seconds`.
    """
    if check_index(client, index_name, model_id=model_id, dimension=dimension):
        return False
    created = _create(client, index_name, index_body(model_id, dimension))
    deadline = clock() + wait_seconds
    while not check_index(client, index_name, model_id=model_id, dimension=dimension):
        if clock() >= deadline:
            raise IndexUnavailableError(f"index {index_name} was created but did not appear within {wait_seconds:g} s")
        sleep(1.0)
    return created


def check_index(client: OpenSearch, index_name: str, *, model_id: str, dimension: int) -> bool:
    """Whether the index exists. Raises `IncompatibleIndexError` if it was made for something else."""
    try:
        answer = client.indices.get_mapping(index=index_name, ignore=404)
    except OpenSearchException as exc:
        raise IndexUnavailableError(f"reading the mapping of index {index_name} failed: {exc}") from exc
    if not answer or "error" in answer:
        return False
    (mapping,) = (index["mappings"] for index in answer.values())
    _compare(index_name, mapping.get("_meta") or {}, identity(model_id, dimension))
    return True


def _compare(index_name: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    different = [
        f"{name} {found.get(name)!r}, not {wanted[name]!r}" for name in wanted if found.get(name) != wanted[name]
    ]
    if different:
        raise IncompatibleIndexError(
            f"index {index_name} was made with {'; '.join(different)}: "
            "build an index of another name and set OPX_SEARCH_INDEX to it"
        )


def _create(client: OpenSearch, index_name: str, body: dict[str, Any]) -> bool:
    """Create the index; false if someone else just did."""
    try:
        client.indices.create(index=index_name, body=body)
    except RequestError as exc:
        if exc.error == _ALREADY_THERE:
            return False
        raise IndexUnavailableError(f"creating index {index_name} failed: {exc}") from exc
    except OpenSearchException as exc:
        raise IndexUnavailableError(f"creating index {index_name} failed: {exc}") from exc
    return True
