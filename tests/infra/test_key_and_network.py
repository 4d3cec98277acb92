"""A key of the customer, and a network without a way out."""

from __future__ import annotations

import json

from tests.infra.conftest import KEY_ARN
from tests.infra.templates import Assembly, has_our_code, lint_findings, listed
from tests.support.sampling import sampled


def test_by_default_there_is_neither_key_nor_network(default: Assembly) -> None:
    assert not {"key", "network"} & set(default.templates)
    kinds = {(resource["Type"], stack) for stack, _, resource in default.all_resources()}
    found = {stack for kind, stack in kinds if kind.startswith(("AWS::KMS", "AWS::EC2"))}
    assert found == {"observability"}, "alarms can't be sent to a topic that is encrypted with a key of AWS"


def test_whatever_keeps_data_is_encrypted_with_the_key(with_key: Assembly) -> None:
    where = {
        "S3::Bucket": ("BucketEncryption",),
        "DynamoDB::Table": ("SSESpecification", "KMSMasterKeyId"),
        "SQS::Queue": ("KmsMasterKeyId",),
        "SNS::Topic": ("KmsMasterKeyId",),
        "Logs::LogGroup": ("KmsKeyId",),
        "Events::Archive": ("KmsKeyIdentifier",),
        "Events::EventBus": ("KmsKeyIdentifier",),
        "Lambda::Function": ("KmsKeyArn",),
    }
    seen = set()
    for stack, name, resource in with_key.all_resources():
        kind = resource["Type"].removeprefix("AWS::")
        if kind not in where or "AccessLogs" in name:
            continue
        value = resource["Properties"]
        for part in where[kind]:
            value = value[part]
        assert KEY_ARN in json.dumps(value), f"{name} of {stack}"
        seen.add(kind)
    assert seen >= where.keys() - {"SNS::Topic"}


def test_no_queue_has_two_kinds_of_encryption(with_key: Assembly) -> None:
    queues = [r["Properties"] for _, _, r in with_key.all_resources() if r["Type"] == "AWS::SQS::Queue"]
    assert queues
    assert all("SqsManagedSseEnabled" not in queue for queue in queues)


def test_the_collection_is_encrypted_with_the_key(with_key: Assembly) -> None:
    policies = with_key.resources("search", "OpenSearchServerless::SecurityPolicy").values()
    (policy,) = (json.loads(p["Policy"]) for p in policies if p["Type"] == "encryption")
    assert (policy["AWSOwnedKey"], policy["KmsARN"]) == (False, KEY_ARN)
    assert policy["Rules"][0]["ResourceType"] == "collection"


def test_functions_and_schedules_may_use_the_key_and_not_manage_it(with_key: Assembly) -> None:
    allowed = set()
    for _, _, resource in with_key.all_resources():
        if resource["Type"] == "AWS::IAM::Policy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                allowed |= {a for a in listed(statement["Action"]) if a.startswith("kms:")}
    assert allowed == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_a_key_of_its_own_rotates_and_lets_services_write_for_this_account_only(private: Assembly) -> None:
    key = private.only("key", "KMS::Key")
    assert key["EnableKeyRotation"] is True
    services = [s for s in key["KeyPolicy"]["Statement"] if "Service" in s["Principal"]]
    assert len(services) == 2
    assert all(statement["Condition"] for statement in services)
    assert "<AWS::AccountId>" in json.dumps(services)


def test_functions_run_inside_and_reach_endpoints_alone(private: Assembly) -> None:
    functions = [r["Properties"] for _, n, r in private.all_resources() if r["Type"] == "AWS::Lambda::Function"]
    ours = [function for function in functions if has_our_code(function)]
    assert len(ours) >= 2
    assert all(len(function["VpcConfig"]["SubnetIds"]) == 2 for function in ours)
    kinds = {r["Type"] for r in private.templates["network"]["Resources"].values()}
    assert not kinds & {"AWS::EC2::NatGateway", "AWS::EC2::InternetGateway"}


def test_functions_may_speak_tls_and_nothing_else(private: Assembly) -> None:
    groups = private.resources("network", "EC2::SecurityGroup").values()
    (functions,) = (g for g in groups if g["GroupDescription"] == "OPX Knowledge functions")
    (egress,) = functions["SecurityGroupEgress"]
    assert (egress["FromPort"], egress["ToPort"], egress["IpProtocol"]) == (443, 443, "tcp")


def test_neither_cdk_nag_nor_cfn_lint_finds_anything(private: Assembly, with_key: Assembly) -> None:
    """cfn-lint sees the key in a network alone: it takes a second for each stack."""
    assert private.findings == with_key.findings == []
    for stack in sampled(list(private.templates), part=0):
        assert lint_findings(private, stack) == []
