"""A DynamoDB table as the library specifies it."""

from __future__ import annotations

from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from infra.constructs.keeping import removal_policy
from opx.ports.tables import TableSpec


class KnowledgeTable(Construct):
    """An on-demand table with the keys, indexes and expiry of its `TableSpec`, restorable to any second."""

    def __init__(
        self, scope: Construct, construct_id: str, *, spec: TableSpec, table_name: str, ephemeral: bool
    ) -> None:
        super().__init__(scope, construct_id)
        self.table = dynamodb.Table(
            self,
            "Table",
            table_name=table_name,
            partition_key=_attribute(spec, spec.partition),
            sort_key=_attribute(spec, spec.sort) if spec.sort else None,
            time_to_live_attribute=spec.ttl or None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=not ephemeral,
            removal_policy=removal_policy(ephemeral=ephemeral),
        )
        for index in spec.indexes:
            self.table.add_global_secondary_index(
                index_name=index.name,
                partition_key=_attribute(spec, index.partition),
                sort_key=_attribute(spec, index.sort) if index.sort else None,
                projection_type=dynamodb.ProjectionType.ALL,
            )


def _attribute(spec: TableSpec, name: str) -> dynamodb.Attribute:
    kind = dynamodb.AttributeType.NUMBER if name in spec.numbers else dynamodb.AttributeType.STRING
    return dynamodb.Attribute(name=name, type=kind)
