"""The search collection, its index, and who may do what with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.configuration import Deployment
from infra.constructs.hybrid_index import index_schema
from opx_aws.bedrock_embedder import DEFAULT_MODEL, MODELS, BedrockEmbedder
from opx_aws.opensearch_schema import identity, index_body
from tests.infra.templates import Assembly, listed

STATEFUL_IDS = {
    "HybridIndexGroupD79BBBA8": "CollectionGroup",
    "HybridIndexCollection1A765FA1": "Collection",
}


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
    policies = {
        name for name, r in resources.items() if r["Type"].startswith("AWS::OpenSearch") and "Policy" in r["Type"]
    }
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
                "dev-opx-create-index-<AWS::Region>",
                "dev-opx-ingest-documents-<AWS::Region>",
                "dev-opx-prune-knowledge-<AWS::Region>",
                "dev-opx-rebuild-index-<AWS::Region>",
            ],
            {"DescribeIndex", "ReadDocument", "WriteDocument"},
        ),
        (
            "manage",
            ["dev-opx-create-index-<AWS::Region>", "dev-opx-rebuild-index-<AWS::Region>"],
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
    index = default.only("search", "Custom::SearchIndex")
    assert json.loads(index["Body"]) == index_body(f"{DEFAULT_MODEL}/1024", 1024)
    assert (index["Model"], index["Dimension"], index["Engine"]) == (f"{DEFAULT_MODEL}/1024", "1024", "")
    assert index["Delete"] == "false"
    assert index["Endpoint"] == "<HybridIndexCollection1A765FA1.CollectionEndpoint>"


def test_a_classic_index_has_an_engine_that_filters(ephemeral: Assembly) -> None:
    index = ephemeral.only("search", "Custom::SearchIndex")
    vector = json.loads(index["Body"])["mappings"]["properties"]["vector"]
    assert vector["method"] == {"name": "hnsw", "engine": "faiss", "space_type": "innerproduct"}
    assert (index["Engine"], index["Delete"]) == ("faiss", "true")


def test_the_function_is_called_by_the_provider_and_may_use_the_collection_alone(default: Assembly) -> None:
    resources = default.resources("search", "Lambda::Function")
    names = {function.get("FunctionName") for function in resources.values()}
    assert "dev-opx-create-index" in names
    actions = {
        action
        for policy in default.resources("search", "IAM::Policy").values()
        if any("CreateIndexRole" in str(role) for role in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
    }
    assert {action.partition(":")[0] for action in actions} == {"aoss", "logs", "xray"}


@pytest.mark.parametrize("model", [*MODELS, "eu.cohere.embed-v4:0"])
def test_the_index_fits_what_the_embedder_of_the_model_makes(model: str) -> None:
    embedder = BedrockEmbedder(None, model)  # type: ignore[arg-type]
    mappings = index_schema(Deployment(embedding_model=model))["mappings"]
    assert mappings["_meta"] == identity(embedder.model_id, embedder.dimension)
    assert mappings["properties"]["vector"]["dimension"] == embedder.dimension


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
