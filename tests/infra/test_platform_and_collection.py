"""An environment on a collection that exists already, with functions for another processor and another Python."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.infra.templates import Assembly, listed

ENDPOINT = "https://abc123.aoss.eu-central-1.on.aws"
ARN = "arn:aws:aoss:eu-central-1:111122223333:collection/abc123"


@pytest.fixture(scope="module")
def existing(make: Callable[..., Assembly]) -> Assembly:
    return make(search_endpoint=ENDPOINT, search_arn=ARN, architecture="x86_64", python="3.12")


def test_no_collection_is_made(existing: Assembly) -> None:
    assert "search" not in existing.templates
    assert not [kind for _, _, r in existing.all_resources() if (kind := r["Type"]).startswith("AWS::OpenSearch")]


@pytest.mark.parametrize("stack", ["ingestion", "retrieval"])
def test_functions_use_the_collection_that_was_given(existing: Assembly, stack: str) -> None:
    function = existing.only(stack, "Lambda::Function")
    assert function["Environment"]["Variables"]["OPX_SEARCH_ENDPOINT"] == ENDPOINT
    policies = existing.resources(stack, "IAM::Policy").values()
    statements = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    (reaching,) = (s for s in statements if "aoss:APIAccessAll" in listed(s["Action"]))
    assert listed(reaching["Resource"]) == [ARN]


def test_functions_and_layers_are_for_the_chosen_processor_and_python(existing: Assembly) -> None:
    made = [resource for _, _, resource in existing.all_resources()]
    functions = [r["Properties"] for r in made if r["Type"] == "AWS::Lambda::Function"]
    layers = [r["Properties"] for r in made if r["Type"] == "AWS::Lambda::LayerVersion"]
    assert functions
    assert all((f["Runtime"], f["Architectures"]) == ("python3.12", ["x86_64"]) for f in functions)
    assert all(layer["CompatibleRuntimes"] == ["python3.12"] for layer in layers)
    assert all(layer["CompatibleArchitectures"] == ["x86_64"] for layer in layers)


def test_nothing_is_found_against_it(existing: Assembly) -> None:
    assert existing.findings == []
