"""The index as a resource of CloudFormation, on a collection whose policies take effect late and that may be asleep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lambdas.create_index.handler import IndexNotCreatedError, make_handler
from opx.errors import IncompatibleIndexError, IndexUnavailableError
from opx.runtime.deadlines import deadline
from opx_aws.index_resource import apply_request
from opx_aws.opensearch_schema import CLASSIC_ENGINE, index_body
from opx_testing.fake_time import FakeTime
from tests.doubles.http_double import Response
from tests.doubles.opensearch import OpenSearchDouble
from tests.support.fakes import FakeContext, function_logs
from tests.support.opensearch_support import INDEX, MODEL, a_client

FORBIDDEN = Response(403, {"status": 403, "error": {"reason": "User does not have permissions", "type": "Forbidden"}})


def a_request(kind: str = "Create", **changed: str) -> dict[str, Any]:
    properties = {
        "Endpoint": "https://collection",
        "IndexName": INDEX,
        "Body": json.dumps(index_body(MODEL, 8)),
        "Model": MODEL,
        "Dimension": "8",
        "Engine": "",
        "Delete": "false",
    }
    known = {} if kind == "Create" else {"PhysicalResourceId": f"https://collection/{INDEX}"}
    return {"RequestType": kind, "ResourceProperties": {**properties, **changed}, **known}


class Collection:
    """A collection, and calls of the function in simulated time, with ten minutes each."""

    def __init__(self, double: OpenSearchDouble, client: Any, time: FakeTime) -> None:
        self.double, self.client, self.time = double, client, time

    def apply(self, request: dict[str, Any]) -> dict[str, Any]:
        with deadline(600, self.time.clock):
            return apply_request(request, lambda endpoint: self.client, sleep=self.time.sleep)


@pytest.fixture
def collection() -> Iterator[Collection]:
    with OpenSearchDouble() as double, a_client(double) as client:
        yield Collection(double, client, FakeTime())


def test_the_index_is_created_and_its_id_names_collection_and_index(collection: Collection) -> None:
    made = {"PhysicalResourceId": f"https://collection/{INDEX}", "Data": {"OwnIds": "on"}}
    assert collection.apply(a_request()) == made
    assert collection.client.indices.exists(index=INDEX)


def test_a_right_that_takes_effect_late_is_waited_for(collection: Collection) -> None:
    collection.double.inject(FORBIDDEN, times=12)
    collection.apply(a_request())
    assert collection.time.elapsed == 60
    assert collection.client.indices.exists(index=INDEX)


def test_a_right_that_never_takes_effect_is_an_error_before_the_function_ends(collection: Collection) -> None:
    collection.double.inject(FORBIDDEN, times=1000)
    with pytest.raises(IndexUnavailableError, match="403"):
        collection.apply(a_request())
    assert 500 < collection.time.elapsed < 580


def test_a_malformed_mapping_is_an_error_at_once(collection: Collection) -> None:
    collection.double.inject(Response(400, {"error": {"reason": "no [type] specified"}}), path=INDEX, method="PUT")
    with pytest.raises(IndexUnavailableError, match="400"):
        collection.apply(a_request())
    assert collection.time.elapsed == 0


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_an_index_that_exists_is_accepted(collection: Collection, kind: str) -> None:
    collection.apply(a_request())
    assert collection.apply(a_request(kind))["PhysicalResourceId"] == f"https://collection/{INDEX}"


def test_an_update_to_another_model_is_refused(collection: Collection) -> None:
    collection.apply(a_request())
    with pytest.raises(IncompatibleIndexError):
        collection.apply(a_request("Update", Model="another/16", Dimension="16"))


def test_a_classic_index_with_an_engine_that_can_not_filter_is_refused() -> None:
    body = index_body(MODEL, 8, engine="nmslib")
    with OpenSearchDouble("classic") as double, a_client(double) as client:
        client.indices.create(index=INDEX, body=body)
        collection = Collection(double, client, FakeTime())
        with pytest.raises(IncompatibleIndexError, match="engine nmslib, not faiss"):
            collection.apply(a_request(Engine=CLASSIC_ENGINE))
        collection.apply(a_request(Engine=CLASSIC_ENGINE, IndexName="another"))


def test_an_index_of_another_kind_is_created_from_its_body(collection: Collection) -> None:
    request = a_request(IndexName="managed", Body=json.dumps(index_body("another/16", 16)))
    for name in ("Model", "Dimension", "Engine"):
        del request["ResourceProperties"][name]
    collection.apply(request)
    collection.apply(request)
    assert collection.client.indices.exists(index="managed")


def test_a_collection_that_refuses_ids_of_its_clients_is_noticed() -> None:
    with OpenSearchDouble(assigns_ids=True) as double, a_client(double) as client:
        made = Collection(double, client, FakeTime()).apply(a_request())
        assert made["Data"] == {"OwnIds": "off"}
        assert client.count(index=INDEX, body={"query": {"match_all": {}}})["count"] == 0


def test_nothing_is_left_of_the_trial(collection: Collection) -> None:
    collection.apply(a_request())
    assert collection.client.count(index=INDEX, body={"query": {"match_all": {}}})["count"] == 0


def test_an_engine_that_refuses_filters_is_an_error_at_deployment() -> None:
    refused = pytest.raises(IndexUnavailableError, match=r"Engine \[NMSLIB\] does not support filters")
    with OpenSearchDouble("classic") as double, a_client(double) as client, refused:
        Collection(double, client, FakeTime()).apply(a_request())


@pytest.mark.parametrize("delete", ["true", "false"])
def test_the_index_is_deleted_with_its_resource_only_where_that_is_wanted(collection: Collection, delete: str) -> None:
    collection.apply(a_request())
    assert collection.apply(a_request("Delete", Delete=delete))["PhysicalResourceId"] == f"https://collection/{INDEX}"
    assert collection.client.indices.exists(index=INDEX) is (delete == "false")


def test_a_collection_that_is_gone_does_not_hold_up_a_deletion(collection: Collection) -> None:
    collection.double.inject(FORBIDDEN, times=1000)
    collection.apply(a_request("Delete", Delete="true"))


def test_the_reason_is_in_the_error_of_the_function(collection: Collection) -> None:
    collection.double.inject(Response(400, {"error": {"reason": "no [type] specified"}}), path=INDEX, method="PUT")
    handler = make_handler(collection.apply)
    with function_logs(), pytest.raises(IndexNotCreatedError, match=f"creating index {INDEX} failed.*400"):
        handler(a_request(), FakeContext())
    with function_logs():
        assert handler(a_request(), FakeContext())["PhysicalResourceId"] == f"https://collection/{INDEX}"
