"""The corpus bucket and the tables."""

from __future__ import annotations

import pytest

from opx.ports.tables import ALL_TABLES, TableSpec
from tests.infra.templates import Assembly, Resource

CORPUS = "CorpusBucket76874A67"
ACCESS_LOGS = "CorpusAccessLogs487DFD00"
BUCKETS = (CORPUS, ACCESS_LOGS)

STATEFUL_IDS = {
    CORPUS,
    ACCESS_LOGS,
    "DocumentsTableC106CDD0",
    "EmbeddingsTable70D42447",
    "EntriesTableC033B2BD",
    "FailuresTableDE3298B0",
    "IdempotencyTableE9369C9C",
    "KeysTableE819F206",
    "ProjectsTableB10C3C68",
    "SourcesTable6C8F3A2B",
    "DeliveriesTableAC65D7AE",
    "WebCacheTableEF4ABAF9",
    "AuditTable6B25623D",
    "BaselinesTable42FC0B7C",
    "GapsTableE7273B44",
    "GraphTable4251D9A0",
    "AliasesTableD1144E1A",
    "StagingTableF7B2FBBD",
    "PatternsTableE5F04C8A",
    "OutcomesTable0F871CB8",
    "CalendarTable3E7D6EAD",
    "LifecycleTable4F5353C6",
    "AnnouncementsTable949E2030",
    "UsageTableC91F6939",
    "UsesTable429A3207",
}
"""A new id makes CloudFormation replace the resource, and leave the data behind."""


def stateful(assembly: Assembly) -> dict[str, Resource]:
    kinds = ("AWS::S3::Bucket", "AWS::DynamoDB::Table")
    found = assembly.templates["storage"]["Resources"]
    return {name: resource for name, resource in found.items() if resource["Type"] in kinds}


def table(assembly: Assembly, spec: TableSpec) -> Resource:
    tables = assembly.resources("storage", "DynamoDB::Table").values()
    (found,) = (t for t in tables if t["TableName"] == "dev-" + spec.name)
    return found


def key_schema(partition: str, sort: str) -> list[tuple[str, str]]:
    return [(partition, "HASH")] + ([(sort, "RANGE")] if sort else [])


def as_pairs(schema: list[Resource]) -> list[tuple[str, str]]:
    return [(key["AttributeName"], key["KeyType"]) for key in schema]


def test_logical_ids_of_state_never_change(default: Assembly) -> None:
    assert set(stateful(default)) == STATEFUL_IDS


def test_logical_ids_are_the_same_in_every_environment(default: Assembly, ephemeral: Assembly) -> None:
    assert set(stateful(default)) == set(stateful(ephemeral))


@pytest.mark.parametrize("name", BUCKETS)
def test_buckets_are_encrypted(default: Assembly, name: str) -> None:
    encryption = default.resources("storage", "S3::Bucket")[name]["BucketEncryption"]
    (rule,) = encryption["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"


@pytest.mark.parametrize("name", BUCKETS)
def test_buckets_refuse_public_access(default: Assembly, name: str) -> None:
    access = default.resources("storage", "S3::Bucket")[name]["PublicAccessBlockConfiguration"]
    options = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    assert access == dict.fromkeys(options, True)


@pytest.mark.parametrize("name", BUCKETS)
def test_buckets_refuse_connections_without_tls(default: Assembly, name: str) -> None:
    policies = default.resources("storage", "S3::BucketPolicy").values()
    (policy,) = (p["PolicyDocument"] for p in policies if p["Bucket"] == f"<{name}>")
    (denied,) = (s for s in policy["Statement"] if s["Effect"] == "Deny")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert denied["Resource"] == [f"<{name}.Arn>", f"<{name}.Arn>/*"]
    assert (denied["Action"], denied["Principal"]) == ("s3:*", {"AWS": "*"})


def test_earlier_versions_of_documents_are_kept_for_ninety_days(default: Assembly) -> None:
    corpus = default.resources("storage", "S3::Bucket")[CORPUS]
    assert corpus["VersioningConfiguration"] == {"Status": "Enabled"}
    rule, words = corpus["LifecycleConfiguration"]["Rules"]
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 90}
    assert not {"ExpirationInDays", "Prefix"} & rule.keys()
    assert (words["Prefix"], words["NoncurrentVersionExpiration"]) == ("words/", {"NoncurrentDays": 1})


def test_the_corpus_reports_changes_to_eventbridge(default: Assembly) -> None:
    corpus = default.resources("storage", "S3::Bucket")[CORPUS]
    assert corpus["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}


def test_access_to_the_corpus_is_logged(default: Assembly) -> None:
    corpus = default.resources("storage", "S3::Bucket")[CORPUS]
    assert corpus["LoggingConfiguration"]["DestinationBucketName"] == f"<{ACCESS_LOGS}>"


def test_there_is_a_table_for_each_specification(default: Assembly) -> None:
    names = {t["TableName"] for t in default.resources("storage", "DynamoDB::Table").values()}
    assert names == {"dev-" + spec.name for spec in ALL_TABLES}


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
def test_a_table_has_the_keys_of_its_specification(default: Assembly, spec: TableSpec) -> None:
    assert as_pairs(table(default, spec)["KeySchema"]) == key_schema(spec.partition, spec.sort)


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
def test_a_table_has_the_indexes_of_its_specification_with_whole_items(default: Assembly, spec: TableSpec) -> None:
    found = table(default, spec).get("GlobalSecondaryIndexes", [])
    assert {index["IndexName"]: as_pairs(index["KeySchema"]) for index in found} == {
        index.name: key_schema(index.partition, index.sort) for index in spec.indexes
    }
    assert all(index["Projection"] == {"ProjectionType": "ALL"} for index in found)


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
def test_key_attributes_have_the_types_of_the_specification(default: Assembly, spec: TableSpec) -> None:
    for attribute in table(default, spec)["AttributeDefinitions"]:
        expected = "N" if attribute["AttributeName"] in spec.numbers else "S"
        assert attribute["AttributeType"] == expected


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
def test_items_expire_as_the_specification_declares(default: Assembly, spec: TableSpec) -> None:
    expected = {"AttributeName": spec.ttl, "Enabled": True} if spec.ttl else None
    assert table(default, spec).get("TimeToLiveSpecification") == expected


@pytest.mark.parametrize("spec", ALL_TABLES, ids=lambda spec: spec.name)
def test_a_table_is_encrypted_restorable_and_paid_by_request(default: Assembly, spec: TableSpec) -> None:
    found = table(default, spec)
    assert found["SSESpecification"] == {"SSEEnabled": True}
    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert found["BillingMode"] == "PAY_PER_REQUEST"


def test_state_outlives_its_stack_by_default(default: Assembly) -> None:
    for resource in stateful(default).values():
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    for found in default.resources("storage", "DynamoDB::Table").values():
        assert found["DeletionProtectionEnabled"] is True


def test_state_of_an_ephemeral_environment_goes_with_its_stack(ephemeral: Assembly) -> None:
    for resource in stateful(ephemeral).values():
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Delete", "Delete")
    for found in ephemeral.resources("storage", "DynamoDB::Table").values():
        assert found["DeletionProtectionEnabled"] is False


def test_only_an_ephemeral_environment_has_something_that_empties_buckets(
    default: Assembly, ephemeral: Assembly
) -> None:
    assert not default.resources("storage", "Lambda::Function")
    assert len(ephemeral.resources("storage", "Lambda::Function")) == 1
