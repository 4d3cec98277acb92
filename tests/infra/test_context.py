"""What a deployment may be told, and how it refuses the rest."""

from __future__ import annotations

import pytest

from infra.configuration import ContextError, Deployment


def test_without_context_a_retained_next_generation_dev_environment_is_made() -> None:
    chosen = Deployment.from_context({})
    assert (chosen.environment, chosen.search_generation, chosen.ephemeral, chosen.bundle) == (
        "dev",
        "nextgen",
        False,
        False,
    )


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("environment", "Prod", "lower-case letters and digits"),
        ("environment", "elevenchars", "1 to 10"),
        ("environment", "", "1 to 10"),
        ("search_generation", "next", "nextgen, classic"),
        ("ephemeral", "yes", "true, false"),
        ("bundle", "1", "true, false"),
        ("embedding_model", "amazon.titan-embed-text-v9", "amazon.titan-embed-text-v2:0"),
    ],
)
def test_an_unknown_value_is_refused_with_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(ContextError, match=f"context {key}.*{allowed}"):
        Deployment.from_context({key: value})


def test_an_unknown_key_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(ContextError, match="unknown context key 'enviroment'; allowed: environment, account"):
        Deployment.from_context({"enviroment": "prod"})


def test_context_of_cdk_itself_is_left_alone() -> None:
    context = {"aws:cdk:bundling-stacks": [], "@aws-cdk/core:checkSecretUsage": True, "ssm:account=1:name": "x"}
    assert Deployment.from_context(context) == Deployment()


@pytest.mark.parametrize("value", ["true", "True", True])
def test_truth_is_read_from_the_command_line_and_from_cdk_json(value: object) -> None:
    assert Deployment.from_context({"ephemeral": value}).ephemeral is True
