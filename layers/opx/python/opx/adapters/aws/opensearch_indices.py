"""Creation and inspection of the index, apart from reading and writing it: other rights, another time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opensearchpy import OpenSearch, OpenSearchException, RequestError

from opx.adapters.aws.opensearch_schema import SPACE_TYPE, index_body
from opx.errors import IncompatibleIndexError, IndexUnavailableError

log = logging.getLogger(__name__)

_ALREADY_THERE = "resource_already_exists_exception"
_COMPARED = {"type": None, "dimension": None, "space_type": SPACE_TYPE, "analyzer": None, "index": True}
"""Parameters of a field that decide what is found, and what is assumed where a mapping doesn't say."""


def ensure_index(
    client: OpenSearch,
    index_name: str,
    *,
    model_id: str,
    dimension: int,
    engine: str = "",
    wait_seconds: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Create the index unless it is there, and wait until it can be used; true if it was created here. `engine` searches
    the vectors, the service's own default if it is empty.

    A new index appears after up to 15 seconds. Raises `IncompatibleIndexError` if there is one for another model,
    dimension or analyzer, and `IndexUnavailableError` if it doesn't appear within `wait_seconds`.
    """
    if check_index(client, index_name, model_id=model_id, dimension=dimension):
        return False
    created = _create(client, index_name, index_body(model_id, dimension, engine=engine))
    deadline = clock() + wait_seconds
    while not check_index(client, index_name, model_id=model_id, dimension=dimension):
        if clock() >= deadline:
            raise IndexUnavailableError(f"index {index_name} was created but did not appear within {wait_seconds:g} s")
        sleep(1.0)
    return created


def delete_index(client: OpenSearch, index_name: str) -> None:
    """Remove the index; nothing if there is none. Raises `IndexUnavailableError`."""
    try:
        client.indices.delete(index=index_name, ignore=404)
    except OpenSearchException as exc:
        raise IndexUnavailableError(f"removing index {index_name} failed: {exc}") from exc


def check_index(client: OpenSearch, index_name: str, *, model_id: str, dimension: int) -> bool:
    """Whether the index exists.

    Raises `IncompatibleIndexError` if it was made for something else: its searched fields must be those of `index_body`,
    and its `_meta` must have the same identity. A mapping without `_meta` is taken with a warning.
    """
    try:
        answer = client.indices.get_mapping(index=index_name, ignore=404)
    except OpenSearchException as exc:
        raise IndexUnavailableError(f"reading the mapping of index {index_name} failed: {exc}") from exc
    if not answer or "error" in answer:
        return False
    (mapping,) = (index["mappings"] for index in answer.values())
    wanted = index_body(model_id, dimension)["mappings"]
    different = [*_other_identity(index_name, mapping, wanted), *_other_fields(mapping, wanted)]
    if different:
        raise IncompatibleIndexError(
            f"index {index_name} was made with {'; '.join(different)}: run `opx reindex`, which makes one "
            "for this program; or make an index of another name, set OPX_SEARCH_INDEX to it, and fill it from the corpus as "
            "`opx rebuild` says"
        )
    return True


def _other_identity(index_name: str, mapping: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    found = mapping.get("_meta")
    if not found:
        log.warning("index %s doesn't say for which model and analyzer it was made", index_name)
        return
    for name, value in wanted["_meta"].items():
        if found.get(name) != value:
            yield f"{name} {found.get(name)!r}, not {value!r}"


def _other_fields(mapping: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    fields = mapping.get("properties") or {}
    for name, parameters in wanted["properties"].items():
        if name not in fields:
            yield f"no field {name}"
            continue
        if parameters.get("index") is False:  # only stored: whatever its type, it comes back as it was put
            continue
        found = {**fields[name].get("method", {}), **fields[name]}  # a method may have the space
        for parameter, default in _COMPARED.items():
            has, needs = found.get(parameter, default), parameters.get(parameter, default)
            if has != needs:
                yield f"field {name} of {parameter} {has!r}, not {needs!r}"


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
