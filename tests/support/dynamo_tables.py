"""DynamoDB tables in an AWS double, made from the same specifications as the deployed ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import boto3

from opx.ports.tables import TableSpec

BILLING = "PAY_PER_REQUEST"


def create_table(client: Any, spec: TableSpec, prefix: str = "") -> str:
    """Create the table with its indexes, and return its name. Its expiry is left out: the double deletes nothing."""
    name = prefix + spec.name
    indexes = _indexes(spec)
    client.create_table(
        TableName=name,
        BillingMode=BILLING,
        KeySchema=_key_schema(spec.partition, spec.sort),
        AttributeDefinitions=_attributes(spec),
        **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
    )
    return name


def create_tables(session: boto3.Session, specs: Iterable[TableSpec], prefix: str = "") -> None:
    """Create the same tables in the memory of moto: requests for all of them took a quarter of a test's time."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.dynamodb.models import dynamodb_backends

    nothing = ("throughput", "streams", "sse_specification", "deletion_protection_enabled", "warm_throughput")
    for spec in specs:
        dynamodb_backends[DEFAULT_ACCOUNT_ID][session.region_name].create_table(
            prefix + spec.name,
            schema=_key_schema(spec.partition, spec.sort),
            attr=_attributes(spec),
            global_indexes=_indexes(spec),
            billing_mode=BILLING,
            indexes=[],
            tags=[],
            **dict.fromkeys(nothing),
        )


def _attributes(spec: TableSpec) -> list[dict[str, str]]:
    attributes = {spec.partition, spec.sort}.union(*((index.partition, index.sort) for index in spec.indexes)) - {""}
    return [
        {"AttributeName": attribute, "AttributeType": "N" if attribute in spec.numbers else "S"}
        for attribute in sorted(attributes)
    ]


def _indexes(spec: TableSpec) -> list[dict[str, Any]]:
    return [
        {
            "IndexName": index.name,
            "KeySchema": _key_schema(index.partition, index.sort),
            "Projection": {"ProjectionType": "ALL"},
        }
        for index in spec.indexes
    ]


def _key_schema(partition: str, sort: str) -> list[dict[str, str]]:
    schema = [{"AttributeName": partition, "KeyType": "HASH"}]
    return [*schema, {"AttributeName": sort, "KeyType": "RANGE"}] if sort else schema
