"""The search collection, its index, and who may do what with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.constructs.hybrid_index import index_schema
from opx.adapters.aws.bedrock_embedder import DEFAULT_MODEL, MODELS, BedrockEmbedder
from opx.adapters.aws.opensearch_schema import identity, index_body
from tests.infra.templates import Assembly

STATEFUL_IDS = {
    "HybridIndexGroupD79BBBA8": "CollectionGroup",
    "HybridIndexCollection1A765FA1": "Collection",
    "HybridIndex386F6AE1": "CollectionIndex",
}
MAX_SCHEMA_CHARACTERS = 2480
"""Limit of AWS::OpenSearchServerless::CollectionIndex."""


def access(assembly: Assembly, kind: str) -> dict[str, Any]:
    """The statement of the one access policy whose name ends so."""
    policies = assembly.resources("search", "OpenSearchServerless::AccessPolicy").values()
    (found,) = (policy for policy in policies if policy["Name"].endswith(f"-{kind}"))
    (statement,) = json.loads(found["Policy"])
    return dict(statement)


def security(assembly: Assembly, kind: str) -> Any:
    policies = assembly.resources("search", "OpenSearchServerless::SecurityPolicy").values()
    (found,) = (policy for policy in policies if policy["Type"] == kind)
    return json.loads(found["Policy"])


def test_logical_ids_of_state_never_change(default: Assembly) -> None:
    resources = default.templates["search"]["Resources"]
    assert {name: resources[name]["Type"].split("::")[-1] for name in STATEFUL_IDS} == STATEFUL_IDS


def test_the_default_collection_is_of_the_next_generation_and_scales_to_zero(default: Assembly) -> None:
    group = default.only("search", "OpenSearchServerless::CollectionGroup")
    assert group["Generation"] == "NEXTGEN"
    limits = group["CapacityLimits"]
    assert (limits["MinIndexingCapacityInOcu"], limits["MinSearchCapacityInOcu"]) == (0, 0)
    collection = default.only("search", "OpenSearchServerless::Collection")
    assert collection["CollectionGroupName"] == group["Name"]


def test_a_classic_collection_is_in_no_group(ephemeral: Assembly) -> None:
    assert not ephemeral.resources("search", "OpenSearchServerless::CollectionGroup")
    assert "CollectionGroupName" not in ephemeral.only("search", "OpenSearchServerless::Collection")


def test_collections_hold_vectors(default: Assembly, ephemeral: Assembly) -> None:
    for assembly in (default, ephemeral):
        assert assembly.only("search", "OpenSearchServerless::Collection")["Type"] == "VECTORSEARCH"


def test_the_collection_is_encrypted(default: Assembly) -> None:
    policy = security(default, "encryption")
    assert policy["AWSOwnedKey"] is True
    assert policy["Rules"] == [{"ResourceType": "collection", "Resource": ["collection/dev-opx-knowledge"]}]


def test_only_the_endpoint_is_reachable_and_no_dashboard(default: Assembly) -> None:
    (statement,) = security(default, "network")
    assert [rule["ResourceType"] for rule in statement["Rules"]] == ["collection"]


def test_policies_are_there_before_the_collection(default: Assembly) -> None:
    resources = default.templates["search"]["Resources"]
    policies = {name for name, r in resources.items() if r["Type"].endswith("Policy")}
    assert len(policies) == 5
    (collection,) = default.resources("search", "OpenSearchServerless::Collection")
    assert policies <= set(resources[collection]["DependsOn"])


@pytest.mark.parametrize(
    ("kind", "roles", "permissions"),
    [
        (
            "read",
            ["dev-opx-retrieve-knowledge-<AWS::Region>", "dev-opx-process-checkpoint-<AWS::Region>"],
            {"DescribeIndex", "ReadDocument"},
        ),
        (
            "write",
            [
                "dev-opx-ingest-documents-<AWS::Region>",
                "dev-opx-prune-knowledge-<AWS::Region>",
                "dev-opx-rebuild-index-<AWS::Region>",
            ],
            {"DescribeIndex", "ReadDocument", "WriteDocument"},
        ),
        (
            "manage",
            ["cdk-hnb659fds-cfn-exec-role-<AWS::AccountId>-<AWS::Region>", "dev-opx-rebuild-index-<AWS::Region>"],
            {"CreateIndex", "DeleteIndex", "DescribeIndex", "UpdateIndex"},
        ),
    ],
)
def test_each_principal_has_its_own_rights_on_the_one_index(
    default: Assembly, kind: str, roles: list[str], permissions: set[str]
) -> None:
    statement = access(default, kind)
    assert statement["Principal"] == [f"arn:<AWS::Partition>:iam::<AWS::AccountId>:role/{role}" for role in roles]
    (rule,) = statement["Rules"]
    assert (rule["ResourceType"], rule["Resource"]) == ("index", ["index/dev-opx-knowledge/*"])
    assert set(rule["Permission"]) == {f"aoss:{permission}" for permission in permissions}


@pytest.mark.parametrize(
    ("kind", "stack"),
    [("read", "retrieval"), ("write", "ingestion")],
)
def test_the_principal_is_the_role_that_the_function_has(default: Assembly, kind: str, stack: str) -> None:
    role = default.only(stack, "IAM::Role")["RoleName"]
    assert f"arn:<AWS::Partition>:iam::<AWS::AccountId>:role/{role}" in access(default, kind)["Principal"]


def test_the_index_is_the_one_that_the_adapter_describes(default: Assembly) -> None:
    index = default.only("search", "OpenSearchServerless::CollectionIndex")
    assert json.loads(index["IndexSchema"]) == index_body(f"{DEFAULT_MODEL}/1024", 1024)


@pytest.mark.parametrize("model", [*MODELS, "eu.cohere.embed-v4:0"])
def test_the_index_fits_what_the_embedder_of_the_model_makes(model: str) -> None:
    embedder = BedrockEmbedder(None, model)  # type: ignore[arg-type]
    mappings = json.loads(index_schema(model))["mappings"]
    assert mappings["_meta"] == identity(embedder.model_id, embedder.dimension)
    assert mappings["properties"]["vector"]["dimension"] == embedder.dimension


@pytest.mark.parametrize("model", MODELS)
def test_the_schema_is_short_enough_to_be_accepted(model: str) -> None:
    assert len(index_schema(model)) <= MAX_SCHEMA_CHARACTERS


def test_the_collection_outlives_its_stack_by_default(default: Assembly) -> None:
    resources = default.templates["search"]["Resources"]
    policies = {(resources[name]["DeletionPolicy"], resources[name]["UpdateReplacePolicy"]) for name in STATEFUL_IDS}
    assert policies == {("RetainExceptOnCreate", "Retain")}


def test_nothing_holds_up_the_rollback_of_a_first_deployment(default: Assembly) -> None:
    assert default.only("search", "OpenSearchServerless::Collection")["DeletionProtection"] == "DISABLED"


def test_tags_of_a_collection_stay_as_they_are_since_others_would_replace_it(default: Assembly) -> None:
    tags = default.only("search", "OpenSearchServerless::Collection")["Tags"]
    assert tags == [{"Key": "application", "Value": "opx-knowledge"}, {"Key": "environment", "Value": "dev"}]


def test_an_ephemeral_collection_goes_with_its_stack(ephemeral: Assembly) -> None:
    resources = ephemeral.templates["search"]["Resources"]
    kept = [name for name, resource in resources.items() if "Retain" in resource.get("DeletionPolicy", "")]
    assert not kept


def test_replicas_of_a_classic_collection_are_a_choice_of_their_own(
    ephemeral: Assembly, make: Callable[..., Assembly]
) -> None:
    assert ephemeral.only("search", "OpenSearchServerless::Collection")["StandbyReplicas"] == "ENABLED"
    single = make(search_generation="classic", search_standby="false")
    assert single.only("search", "OpenSearchServerless::Collection")["StandbyReplicas"] == "DISABLED"
