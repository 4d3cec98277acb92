"""DynamoDB tables in an AWS double, made from the same specifications as the deployed ones."""

from __future__ import annotations

from typing import Any

from opx.ports.tables import TableSpec


def create_table(client: Any, spec: TableSpec, prefix: str = "") -> str:
    """Create the table with its indexes, and return its name. Its expiry is left out: the double deletes nothing."""
    name = prefix + spec.name
    attributes = {spec.partition, spec.sort} - {""}
    indexes = []
    for index in spec.indexes:
        attributes |= {index.partition, index.sort} - {""}
        indexes.append(
            {
                "IndexName": index.name,
                "KeySchema": _key_schema(index.partition, index.sort),
                "Projection": {"ProjectionType": "ALL"},
            }
        )
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_key_schema(spec.partition, spec.sort),
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": "N" if attribute in spec.numbers else "S"}
            for attribute in sorted(attributes)
        ],
        **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
    )
    return name


def _key_schema(partition: str, sort: str) -> list[dict[str, str]]:
    schema = [{"AttributeName": partition, "KeyType": "HASH"}]
    return [*schema, {"AttributeName": sort, "KeyType": "RANGE"}] if sort else schema
