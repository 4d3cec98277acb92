"""Rights and settings of functions with configured models for reranking, planning or contexts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opx.settings import Settings
from tests.infra.templates import Assembly
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import pairs, rights

PROFILE, RERANKER = "eu.amazon.nova-lite-v1:0", "cohere.rerank-v3-5:0"
_BEDROCK = "arn:<AWS::Partition>:bedrock:"
PROFILE_ARNS = {
    f"{_BEDROCK}<AWS::Region>:<AWS::AccountId>:inference-profile/{PROFILE}",
    f"{_BEDROCK}*::foundation-model/amazon.nova-lite-v1:0",
}
RERANKER_ARN = f"{_BEDROCK}<AWS::Region>::foundation-model/{RERANKER}"


@pytest.fixture(scope="module")
def chosen(make: Callable[..., Assembly]) -> Assembly:
    """With all models."""
    return make(
        reranker="bedrock",
        rerank_model=RERANKER,
        chat_model=PROFILE,
        context_model=PROFILE,
        graph_model=PROFILE,
        rewording="off",
        learned_words="off",
    )


def test_the_function_that_answers_may_call_these_models_and_no_others(default: Assembly, chosen: Assembly) -> None:
    added = {right for right in rights(chosen, "retrieval") if right[0].startswith("bedrock:")}
    added -= rights(default, "retrieval")
    assert added == pairs("bedrock:Rerank", {"*"}) | pairs("bedrock:InvokeModel", {RERANKER_ARN, *PROFILE_ARNS})


def test_the_function_that_takes_documents_in_may_call_the_model_that_writes(
    default: Assembly, chosen: Assembly
) -> None:
    added = {right for right in rights(chosen, "ingestion") if right[0].startswith("bedrock:")}
    assert added - rights(default, "ingestion") == pairs("bedrock:InvokeModel", PROFILE_ARNS)


def test_functions_know_the_models_that_they_use(chosen: Assembly) -> None:
    answering = Settings.from_environ(environment(chosen, "retrieval"))
    assert (answering.reranker, answering.rerank_model, answering.chat_model) == ("bedrock", RERANKER, PROFILE)
    writing = Settings.from_environ(environment(chosen, "ingestion"))
    assert (writing.context_model, writing.graph_model) == (PROFILE, PROFILE)


def test_the_answering_function_knows_disabled_options(default: Assembly, chosen: Assembly) -> None:
    for assembly, expected in ((default, "on"), (chosen, "off")):
        answering = Settings.from_environ(environment(assembly, "retrieval"))
        assert (answering.rewording, answering.learned_words) == (expected, expected)


def test_functions_that_report_ingestion_know_the_model_of_contexts(chosen: Assembly) -> None:
    functions = chosen.resources("api", "Lambda::Function").values()
    [manage] = [found for found in functions if "manage" in found["FunctionName"]]
    assert manage["Environment"]["Variables"]["OPX_CONTEXT_MODEL"] == PROFILE


def test_every_finding_about_these_rights_has_its_reason(chosen: Assembly) -> None:
    assert chosen.findings == []


def test_nothing_is_added_where_nothing_is_chosen(default: Assembly) -> None:
    names = {"OPX_RERANKER", "OPX_RERANK_MODEL", "OPX_CHAT_MODEL", "OPX_CONTEXT_MODEL", "OPX_GRAPH_MODEL"}
    for stack in ("retrieval", "ingestion"):
        assert not names & environment(default, stack).keys()
