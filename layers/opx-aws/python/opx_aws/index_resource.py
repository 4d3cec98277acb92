"""The index of a search collection as a custom resource of CloudFormation.

The properties of the resource: `Endpoint` of the collection, `IndexName`, `Body` (JSON of settings and mappings), `Delete`
("true": the index is deleted with the resource), and for an index of the library `Model`, `Dimension` and `Engine`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opensearchpy.exceptions import ConnectionError as NoConnection
from opensearchpy.exceptions import OpenSearchException, TransportError

from opx.errors import IndexUnavailableError, IndexWakingError
from opx.runtime.deadlines import remaining
from opx_aws.opensearch import create_index, delete_index, ensure_index
from opx_aws.opensearch_schema import VECTOR_FIELD

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

PAUSE_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""Left for the answer to CloudFormation."""

_NOT_YET = (401, 403, 404)
"""Statuses while an access policy isn't effective everywhere, which takes up to a minute, or the collection is being made."""

_PROBE, _PROBED = "opx-probe", "category"
_NO_IDS = "document id is not supported"
_REFUSED = 300

log = logging.getLogger(__name__)


def apply_request(
    event: Mapping[str, Any],
    connect: Callable[[str], OpenSearch],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Creates, accepts or deletes the index that a request of CloudFormation describes; returns its physical id.

    `connect` makes a client of an endpoint. An index that exists is accepted if it is for the same model. What may pass
    (an access policy that isn't effective yet, a collection that wakes up) is repeated until the caller's deadline. An index
    of the library is tried: `OwnIds` of the result's `Data` is `off` if the collection accepts no ids of its clients. Raises
    `IncompatibleIndexError` and `IndexUnavailableError`; a deletion raises nothing.
    """
    properties = event["ResourceProperties"]
    client, index = connect(properties["Endpoint"]), properties["IndexName"]
    if event["RequestType"] == "Delete":
        if properties["Delete"] == "true":
            _delete(client, index)
        return {"PhysicalResourceId": event["PhysicalResourceId"]}
    while True:
        try:
            own_ids = _create(client, properties)
        except IndexUnavailableError as exc:
            left = remaining()
            if not _may_pass(exc) or (left is not None and left < PAUSE_SECONDS + ANSWER_SECONDS):
                raise
            log.info("not yet: %s", exc)
            sleep(PAUSE_SECONDS)
        else:
            return {"PhysicalResourceId": f"{properties['Endpoint']}/{index}", "Data": {"OwnIds": own_ids}}


def _create(client: OpenSearch, properties: Mapping[str, Any]) -> str:
    """Returns `on` if the collection accepts ids of its clients, `off` if not, and nothing where that wasn't tried."""
    index = properties["IndexName"]
    if "Model" in properties:
        about = {"model_id": properties["Model"], "dimension": int(properties["Dimension"])}
        created = ensure_index(client, index, **about, engine=properties["Engine"])
    else:
        created = create_index(client, index, json.loads(properties["Body"]))
    log.info("index %s %s", index, "created" if created else "was there already")
    return _tried(client, index, int(properties["Dimension"])) if "Model" in properties else ""


def _tried(client: OpenSearch, index: str, dimension: int) -> str:
    """Searches with a filter, which an engine may refuse, and writes and deletes an entry with an id, which a collection may
    refuse."""
    vector = {"vector": [1.0] + [0.0] * (dimension - 1), "k": 1, "filter": {"term": {_PROBED: _PROBE}}}
    try:
        client.search(index=index, body={"size": 1, "query": {"knn": {VECTOR_FIELD: vector}}})
        written = client.bulk(index=index, body=[{"index": {"_id": _PROBE}}, {}])
        (item,) = (one["index"] for one in written["items"])
        if item["status"] < _REFUSED:
            client.bulk(index=index, body=[{"delete": {"_id": _PROBE}}])
            return "on"
    except OpenSearchException as exc:
        raise IndexUnavailableError(f"trying index {index} failed: {exc}") from exc
    reason = str(item.get("error", {}).get("reason", ""))
    if _NO_IDS not in reason.lower():
        raise IndexUnavailableError(f"trying index {index} failed: an entry was refused ({item['status']}): {reason}")
    log.info("the collection assigns the ids of its entries itself")
    return "off"


def _delete(client: OpenSearch, index: str) -> None:
    """The collection may be gone, or about to go: then its index goes with it."""
    try:
        delete_index(client, index)
    except IndexUnavailableError as exc:
        log.warning("index %s is left in its collection: %s", index, exc)


def _may_pass(error: IndexUnavailableError) -> bool:
    cause = error.__cause__
    refused = isinstance(cause, TransportError) and cause.status_code in _NOT_YET
    return refused or isinstance(error, IndexWakingError) or isinstance(cause, NoConnection)
