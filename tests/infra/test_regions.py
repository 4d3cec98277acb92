"""Templates in all regions that have OpenSearch Serverless: types, and that one region's lint speaks for all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from infra.assembly_checks import _NO_TYPES, _WITHOUT
from tests.infra.regions import types, with_search
from tests.infra.templates import Assembly

CHOICES: dict[str, dict[str, object]] = {
    "default": {},
    "classic": {
        "search_generation": "classic",
        "agent": "classic",
        "webhooks": "true",
        "alarm_email": "ops@example.org",
    },
    "private": {},  # that of the fixture, as those that follow
    "managed": {},
    "beside": {},
    "tokens": {},
    "least": {},
}
ISOLATED = ("us-iso", "us-isob", "us-isof", "eu-isoe", "us-gov", "eusc-")
"""Partitions of their own, some of which lack services that are a choice."""


LACKING = {
    "AWS::BedrockAgentCore::": ("ap-east-1", "ap-northeast-3", "eu-central-2"),
    "AWS::Bedrock::": ("ap-east-1", "us-west-1"),
}
"""Commercial regions that lack types which are a choice: the gateway, the classic agent, the managed knowledge base."""


def kinds(assembly: Assembly) -> set[str]:
    return {
        resource["Type"] for _, _, resource in assembly.all_resources() if not resource["Type"].startswith(_NO_TYPES)
    }


def test_there_are_regions_of_all_partitions() -> None:
    assert len(with_search()) >= 30
    assert all(any(region.startswith(partition) for region in with_search()) for partition in ISOLATED)


@pytest.mark.parametrize("chosen", CHOICES)
def test_each_type_has_one_schema_so_that_the_lint_of_one_region_holds_in_all(
    chosen: str, synthesised: Callable[[str], Assembly]
) -> None:
    for kind in kinds(synthesised(chosen)):
        schemas = {types(region)[kind] for region in with_search() if kind in types(region)}
        assert len(schemas) == 1, kind


@pytest.mark.parametrize("chosen", CHOICES)
def test_commercial_regions_lack_only_what_is_a_choice(chosen: str, synthesised: Callable[[str], Assembly]) -> None:
    wanted = kinds(synthesised(chosen))
    for region in with_search():
        if not region.startswith(ISOLATED):
            lacking = tuple(prefix for prefix, regions in LACKING.items() if region in regions)
            assert wanted - types(region).keys() == {kind for kind in wanted if kind.startswith(lacking)}, region


@pytest.mark.parametrize("chosen", CHOICES)
def test_what_an_isolated_region_lacks_is_a_choice(chosen: str, synthesised: Callable[[str], Assembly]) -> None:
    """Preflight names the choice that leaves it out."""
    wanted = kinds(synthesised(chosen))
    missing = {kind for region in with_search() for kind in wanted - types(region).keys()}
    assert all(kind.startswith(tuple(prefix for prefix, _ in _WITHOUT)) for kind in missing), missing


def test_the_least_choices_deploy_everywhere(synthesised: Callable[[str], Assembly]) -> None:
    wanted = kinds(synthesised("least"))
    assert {region: wanted - types(region).keys() for region in with_search() if wanted - types(region).keys()} == {}


@pytest.fixture(scope="module")
def synthesised(make: Callable[..., Assembly], request: pytest.FixtureRequest) -> Callable[[str], Assembly]:
    @cache
    def of(chosen: str) -> Assembly:
        context = CHOICES[chosen]
        return make(**context) if context else request.getfixturevalue(chosen)

    return of
