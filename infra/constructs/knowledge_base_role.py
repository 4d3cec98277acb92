"""The IAM role of a Bedrock Knowledge Base."""

from __future__ import annotations

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import managed_index, managed_search, rights
from infra.names import Names
from opx_aws.knowledge_base_objects import COPIES_FOLDER


class KnowledgeBaseRole(Construct):
    """A role of knowledge bases of this account and region: it may read copies, embed them, and fill its index."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, model: str, collection_arn: str) -> None:
        super().__init__(scope, construct_id)
        bases = Stack.of(self).format_arn(service="bedrock", resource="knowledge-base", resource_name="*")
        conditions = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}, "ArnLike": {"aws:SourceArn": bases}}
        self.role = iam.Role(
            self,
            "Role",
            role_name=names.role(managed_index.ROLE),
            assumed_by=iam.ServicePrincipal("bedrock.amazonaws.com", conditions=conditions),
        )
        listing = rights.allow(["s3:ListBucket"], names.corpus_arn)
        listing.add_conditions({"StringLike": {"s3:prefix": f"{COPIES_FOLDER}*"}})
        reading = rights.allow(["s3:GetObject"], managed_search.copies_arn(names))
        for right in (listing, reading, rights.embed(model), rights.use_collections(collection_arn)):
            self.role.add_to_policy(right)
        managed_search.acknowledge_copies(self.role, names)
