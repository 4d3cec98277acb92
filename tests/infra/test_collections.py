"""Two search collections of a deployment, one of which is built to replace the other: templates, refusals and checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.assembly_checks import Assembly as Synthesised
from infra.assembly_checks import replaced_collections
from infra.configuration import ContextError, Deployment
from infra.preflight import Account, collection_of_the_answers
from tests.doubles.aws_account import ACCOUNT, AwsAccountDouble, StackDouble
from tests.infra.templates import Assembly, lint_findings

GREEN = "search-green"
SEARCH, SEARCH_GREEN = "opx-knowledge-dev-search", "opx-knowledge-dev-search-green"
LONGEST_NAME = 32
"""Characters of the name of a collection, a group or a policy."""


def names_in(assembly: Assembly, stack: str) -> dict[str, list[str]]:
    """Names of the search resources of a stack by type."""
    found: dict[str, list[str]] = {}
    for resource in assembly.templates[stack]["Resources"].values():
        if resource["Type"].startswith("AWS::OpenSearchServerless::"):
            found.setdefault(resource["Type"].rsplit("::", 1)[-1], []).append(resource["Properties"]["Name"])
    return found


# -- templates


def test_a_deployment_has_one_collection_whose_names_have_no_suffix(default: Assembly) -> None:
    assert GREEN not in default.templates
    assert names_in(default, "search")["Collection"] == ["dev-opx-knowledge"]


def test_both_collections_have_names_of_their_own_that_are_not_too_long(beside: Assembly) -> None:
    blue, green = names_in(beside, "search"), names_in(beside, GREEN)
    assert green["Collection"] == ["production-opx-knowledge-green"]
    for kind, names in green.items():
        assert not set(names) & set(blue[kind])
        assert all(len(name) <= LONGEST_NAME for name in names)


def test_both_have_the_choices_that_were_made_for_them(beside: Assembly) -> None:
    blue, green = (beside.only(stack, "OpenSearchServerless::Collection") for stack in ("search", GREEN))
    assert (blue["StandbyReplicas"], green["StandbyReplicas"]) == ("ENABLED", "DISABLED")
    assert "CollectionGroupName" in blue
    assert "CollectionGroupName" not in green
    index = json.loads(beside.only(GREEN, "Custom::SearchIndex")["Body"])
    assert index["mappings"]["properties"]["vector"]["method"]["engine"] == "faiss"


def test_each_has_the_function_that_creates_its_index_and_lets_it(beside: Assembly) -> None:
    (function,) = (
        found["FunctionName"]
        for found in beside.resources(GREEN, "Lambda::Function").values()
        if not found["FunctionName"].endswith("-provider-green")
    )
    assert function == "production-opx-create-index-green"
    policies = beside.resources(GREEN, "OpenSearchServerless::AccessPolicy").values()
    for kind in ("write", "manage"):
        (principals,) = (
            json.loads(policy["Policy"])[0]["Principal"] for policy in policies if policy["Name"].endswith(f"-{kind}")
        )
        assert any(f"role/{function}-" in principal for principal in principals), kind
        assert any("role/production-opx-rebuild-index-" in principal for principal in principals), kind


def test_functions_know_both_and_have_rights_on_both(beside: Assembly) -> None:
    (function,) = (
        found["Environment"]["Variables"]
        for found in beside.resources("retrieval", "Lambda::Function").values()
        if found["FunctionName"].endswith("-retrieve-knowledge")
    )
    assert function["OPX_NEXT_SEARCH_GENERATION"] == "classic"
    assert "searchgreenendpoint" in function["OPX_NEXT_SEARCH_ENDPOINT"]
    assert "searchblueendpoint" in function["OPX_SEARCH_ENDPOINT"]
    for stack in ("ingestion", "retrieval", "learning", "lifecycle"):
        allowed = json.dumps(beside.resources(stack, "IAM::Policy"))
        assert "searchbluearn" in allowed, stack
        assert "searchgreenarn" in allowed, stack


def test_addresses_come_from_parameters_and_no_stack_imports_an_export(default: Assembly) -> None:
    published = {one["Name"] for one in default.resources("search", "SSM::Parameter").values()}
    assert published == {f"/dev-opx-knowledge/search/blue/{kind}" for kind in ("endpoint", "arn", "own-ids")}
    for stack in default.written.keys() - {"search"}:
        assert "opx-knowledge-dev-search:ExportsOutput" not in json.dumps(default.written[stack]), stack


def test_what_stacks_of_earlier_releases_import_is_still_exported(default: Assembly) -> None:
    outputs = json.dumps(default.written["search"]["Outputs"])
    for attribute in ("CollectionEndpoint", "Arn", "OwnIds"):
        assert f"{attribute}" in outputs


def test_a_private_network_reaches_both_generations(beside: Assembly) -> None:
    own = beside.resources("network", "OpenSearchServerless::VpcEndpoint")
    assert len(own) == 1
    policies = [
        policy
        for stack in ("search", GREEN)
        for policy in beside.resources(stack, "OpenSearchServerless::SecurityPolicy").values()
        if policy["Type"] == "network"
    ]
    first, second = (json.loads(policy["Policy"])[0]["SourceVPCEs"] for policy in policies)
    assert first != second


@pytest.mark.parametrize("stack", ["search", GREEN, "retrieval"])
def test_templates_of_both_lint_clean(beside: Assembly, stack: str) -> None:
    assert lint_findings(beside, stack) == []
    assert beside.findings == []


def test_the_second_collection_alone_is_the_one_of_the_settings() -> None:
    deployment = Deployment(search_collection="green", next_search_generation="nextgen")
    following = deployment.following
    assert following
    assert (following.search_collection, following.search_generation) == ("blue", "nextgen")
    assert following.following is None


# -- refusals


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"next_search_generation": "vintage"}, "allowed: nextgen, classic"),
        ({"search_collection": "red"}, "allowed: blue, green"),
        (
            {"search_collection": "green", "search_endpoint": "https://x", "search_arn": "arn"},
            "are for collections made here",
        ),
        ({"next_search_generation": "classic", "knowledge_base": "bedrock"}, "excludes search_collection=green"),
        (
            {
                "next_search_generation": "classic",
                "vpc": "true",
                "vpc_id": "vpc-0a1b2c3d",
                "vpc_subnets": "subnet-0a1b2c3d, subnet-1a1b2c3d",
                "vpc_endpoints": "all",
                "vpc_collection_endpoint": "vpce-1",
            },
            "is of one generation",
        ),
    ],
)
def test_impossible_choices_are_refused_with_the_reason(context: Mapping[str, object], reason: str) -> None:
    with pytest.raises(ContextError, match=reason):
        Deployment.from_context(context)


# -- checks before a deployment


def editions(*collections: str) -> dict[str, Any]:
    """The item that records editions; the first of these is active. An edition of an earlier release has no collection."""
    found = [
        {"M": {"name": {"S": f"edition{at}"}, **({"collection": {"S": name}} if name else {})}}
        for at, name in enumerate(collections)
    ]
    return {"editions": {"L": found}, "active": {"S": "edition0"}}


def problems(deployment: Deployment, account: AwsAccountDouble) -> list[str]:
    return [problem.text for problem in collection_of_the_answers(deployment, account)]


BLUE = Deployment()
BOTH = Deployment(next_search_generation="classic")
SECOND = Deployment(search_collection="green", search_generation="classic")
SWITCHED = replace(SECOND, next_search_generation="nextgen")


def an_account(*stacks: str, active: Mapping[str, Any] | None = None) -> AwsAccountDouble:
    table = "dev-opx-knowledge-lifecycle"
    return AwsAccountDouble(
        tables=[table],
        items={table: active or {}},
        stacks={name: StackDouble(template={"Index": {"Type": "Custom::Other"}}) for name in stacks},
    )


@pytest.mark.parametrize("deployment", [BLUE, BOTH, SECOND])
def test_a_first_deployment_may_have_either(deployment: Deployment) -> None:
    assert problems(deployment, AwsAccountDouble()) == []


@pytest.mark.parametrize("deployment", [BLUE, BOTH])
def test_a_second_one_may_be_built_beside_the_first(deployment: Deployment) -> None:
    assert problems(deployment, an_account(SEARCH)) == []
    assert problems(deployment, an_account(SEARCH, SEARCH_GREEN, active=editions("", "green"))) == []


@pytest.mark.parametrize("deployment", [SECOND, SWITCHED])
def test_the_second_one_alone_is_refused_before_an_index_was_built_in_it(deployment: Deployment) -> None:
    (text,) = problems(deployment, an_account(SEARCH))
    assert text.startswith("the index that answers is in the collection blue, and none was built in green yet")


def test_leaving_out_the_collection_that_answers_is_refused() -> None:
    (text,) = problems(SECOND, an_account(SEARCH, SEARCH_GREEN, active=editions("blue", "green")))
    assert "is in the collection blue, which this deployment leaves out" in text
    (text,) = problems(BLUE, an_account(SEARCH, SEARCH_GREEN, active=editions("green", "blue")))
    assert "deploy with -c search_collection=green" in text


@pytest.mark.parametrize("deployment", [BOTH, SECOND, SWITCHED])
def test_after_the_switch_the_first_one_may_stay_or_go(deployment: Deployment) -> None:
    assert problems(deployment, an_account(SEARCH, SEARCH_GREEN, active=editions("green", "blue"))) == []


def changed(tmp_path: Path, deployed: Mapping[str, Any], wanted: Mapping[str, Any], kind: str) -> list[str]:
    """Problems of a deployment that changes a resource of the search stack."""

    def template(properties: Mapping[str, Any]) -> dict[str, Any]:
        return {"One": {"Type": kind, "Properties": {"Name": "dev-opx-knowledge", **properties}}}

    (tmp_path / f"{SEARCH}.template.json").write_text(json.dumps({"Resources": template(wanted)}))
    stack = StackDouble({"One": (kind, "abc123")}, template=template(deployed))
    account = AwsAccountDouble(stacks={SEARCH: stack}, types=frozenset({kind}))
    assembly = Synthesised(tmp_path, Account(ACCOUNT, account.region, account))
    return [problem.text for problem in replaced_collections(assembly)]


COLLECTION, GROUP = "AWS::OpenSearchServerless::Collection", "AWS::OpenSearchServerless::CollectionGroup"


@pytest.mark.parametrize(
    ("kind", "before", "after", "named"),
    [
        (COLLECTION, {"StandbyReplicas": "ENABLED"}, {"StandbyReplicas": "DISABLED"}, "StandbyReplicas"),
        (COLLECTION, {"CollectionGroupName": "x"}, {}, "CollectionGroupName"),
        (COLLECTION, {}, {"Tags": [{"Key": "CostCenter", "Value": "1"}]}, "Tags"),
        (GROUP, {"Generation": "NEXTGEN"}, {"Generation": "CLASSIC"}, "Generation"),
    ],
)
def test_a_change_that_would_replace_a_collection_is_refused_with_the_way_out(
    tmp_path: Path, kind: str, before: Mapping[str, Any], after: Mapping[str, Any], named: str
) -> None:
    (text,) = changed(tmp_path, before, after, kind)
    assert text.startswith(
        f"{named} of the search {kind.rsplit('::', 1)[-1].lower()} dev-opx-knowledge can't be changed"
    )
    assert "-c next_search_generation=..." in text


def test_a_change_that_replaces_nothing_is_none_of_this_check(tmp_path: Path) -> None:
    assert changed(tmp_path, {"Description": "a"}, {"Description": "b"}, COLLECTION) == []
