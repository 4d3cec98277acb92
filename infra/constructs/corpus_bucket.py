"""The corpus: every document that ever came in, and the chunks made of it."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.keeping import removal_policy
from opx.ingestion.indexing.words import FOLDER as WORDS

KEEP_NONCURRENT_DAYS = 90
KEEP_ACCESS_LOGS_DAYS = 90
ABORT_UPLOADS_DAYS = 7


class CorpusBucket(Construct):
    """A versioned bucket that reports every change to EventBridge, with a second one for its access logs.

    Both are encrypted with keys of S3 and refuse public access and connections without TLS. Pages of these `origins` may put
    files at signed addresses: the address is the permission, and CORS only lets a browser use it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, bucket_name: str, ephemeral: bool, origins: Sequence[str] = ()
    ) -> None:
        super().__init__(scope, construct_id)
        common = {
            "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
            "object_ownership": s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            "encryption": s3.BucketEncryption.S3_MANAGED,
            "enforce_ssl": True,
            "removal_policy": removal_policy(ephemeral=ephemeral),
            "auto_delete_objects": ephemeral,
        }
        access_logs = s3.Bucket(
            self,
            "AccessLogs",
            lifecycle_rules=[_expiry(expiration=Duration.days(KEEP_ACCESS_LOGS_DAYS))],
            **common,  # type: ignore[arg-type]
        )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=bucket_name,
            versioned=True,
            server_access_logs_bucket=access_logs,
            server_access_logs_prefix="corpus/",
            lifecycle_rules=[
                _expiry(
                    noncurrent_version_expiration=Duration.days(KEEP_NONCURRENT_DAYS),
                    expired_object_delete_marker=True,
                ),
                _expiry(prefix=WORDS, noncurrent_version_expiration=Duration.days(1)),
            ],
            cors=[_putting_from(origins)] if origins else None,
            **common,  # type: ignore[arg-type]
        )
        _report_changes(self.bucket)


def _report_changes(bucket: s3.Bucket) -> None:
    """Send events to EventBridge. The bucket's own property: CDK's option would add a function with wide rights."""
    resource = bucket.node.default_child
    assert isinstance(resource, s3.CfnBucket)
    resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
    )


def _putting_from(origins: Sequence[str]) -> s3.CorsRule:
    return s3.CorsRule(
        allowed_methods=[s3.HttpMethods.PUT], allowed_origins=list(origins), allowed_headers=["*"], max_age=3600
    )


def _expiry(**what: object) -> s3.LifecycleRule:
    uploads = Duration.days(ABORT_UPLOADS_DAYS)
    return s3.LifecycleRule(abort_incomplete_multipart_upload_after=uploads, **what)  # type: ignore[arg-type]
