"""Query configuration, and the JSON of answers."""

from __future__ import annotations

import json
import math

import pytest

from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_RESULTS, Fusion, QueryConfig, SearchMode
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx.errors import InvalidInputError

INTERNAL, SPECIALIZED, INTERNET = Tier


def a_result(*, parts: ScoreParts | None = None, score: float = 0.72) -> RetrievalResult:
    return RetrievalResult(
        content="Restart it.",
        score=score,
        tier="internal",
        category="runbooks/procedures",
        source="file:///restart.md",
        timestamp="2026-03-01T12:00:00Z",
        trust_score=1.0,
        metadata={"title": "Restart", "section": ["Steps", "First"], "documentId": "0" * 32},
        parts=parts,
    )


# -- questions -------------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_that_callers_know() -> None:
    config = QueryConfig()
    assert (config.tiers, config.categories) == (("internal", "specialized"), None)
    assert (config.min_confidence, config.max_results) == (0.7, 10)
    assert (config.include_internet, config.require_provenance) == (False, True)


def test_the_internet_is_searched_only_if_enabled() -> None:
    assert QueryConfig(tiers=("internal", "internet")).searched_tiers == (INTERNAL,)
    assert QueryConfig(tiers=("internal",), include_internet=True).searched_tiers == (INTERNAL, INTERNET)


def test_tiers_are_searched_in_order_of_trust() -> None:
    config = QueryConfig(tiers=("specialized", "internal"), include_internet=True)
    assert config.searched_tiers == (INTERNAL, SPECIALIZED, INTERNET)


def test_lists_are_taken_for_tuples() -> None:
    config = QueryConfig(tiers=["internal"], categories=["security/cve"], tags=["linux"])  # type: ignore[arg-type]
    assert (config.tiers, config.categories, config.tags) == (("internal",), ("security/cve",), ("linux",))


def test_a_single_text_is_taken_for_a_list_of_one() -> None:
    config = QueryConfig(tiers="internal", categories="security/cve", tags="linux")  # type: ignore[arg-type]
    assert (config.tiers, config.categories, config.tags) == (("internal",), ("security/cve",), ("linux",))


def test_no_categories_is_not_the_same_as_all() -> None:
    assert QueryConfig(categories=()).categories == ()
    assert QueryConfig().categories is None


def test_modes_and_fusions_are_known_by_name() -> None:
    config = QueryConfig(mode="fast", fusion="min_max")  # type: ignore[arg-type]
    assert (config.mode, config.fusion) == (SearchMode.FAST, Fusion.MIN_MAX)


def test_too_many_results_are_lowered_to_the_most_there_are() -> None:
    assert QueryConfig(max_results=MAX_RESULTS + 1).max_results == MAX_RESULTS == 100


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", ""),
        ("2026-11-03T02:14Z", "2026-11-03T02:14:00Z"),
        ("2026-11-03T02:14:59.9", "2026-11-03T02:14:59Z"),
        ("2026-11-03T02:14+02:00", "2026-11-03T00:14:00Z"),
        ("2026-11-03", "2026-11-03T00:00:00Z"),
    ],
)
def test_a_time_is_kept_in_utc(given: str, meant: str) -> None:
    assert QueryConfig(as_of=given).as_of == meant


@pytest.mark.parametrize("confidence", [0, 1, 0.5])
def test_confidence_may_be_any_probability(confidence: float) -> None:
    assert QueryConfig(min_confidence=confidence).min_confidence == confidence


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"min_confidence": -0.01}, "min_confidence"),
        ({"min_confidence": 1.01}, "min_confidence"),
        ({"min_confidence": math.nan}, "min_confidence"),
        ({"max_results": 0}, "max_results must be at least 1"),
        ({"max_chunks_per_document": 0}, "max_chunks_per_document"),
        ({"tiers": ("intern",)}, "internal, specialized, internet"),
        ({"mode": "slow"}, "fast, balanced"),
        ({"fusion": "sum"}, "rrf, weighted_rrf, min_max"),
        ({"as_of": "yesterday"}, "as_of must be a time such as 2026-03-31T14:05Z, not 'yesterday'"),
        ({"as_of": "0001-01-01T00:00+14:00"}, "as_of must be a time"),
    ],
)
def test_invalid_fields_are_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        QueryConfig(**wrong)  # type: ignore[arg-type]


# -- answers ---------------------------------------------------------------------------------------------------------


def test_a_results_confidence_is_its_score_if_there_is_nothing_else() -> None:
    assert a_result(score=0.4).confidence == 0.4


def test_a_result_explains_its_place() -> None:
    parts = ScoreParts(1, 12.3456789, None, None, 0.016, confidence=0.8, trust=0.9, final=0.72)
    result = a_result(parts=parts)
    assert result.confidence == 0.8
    assert result.to_json()["scores"] == {
        "lexicalRank": 1,
        "lexicalScore": 12.345679,
        "vectorRank": None,
        "vectorScore": None,
        "fused": 0.016,
        "rerank": None,
        "estimated": None,
        "verdict": None,
        "confidence": 0.8,
        "trust": 0.9,
        "outcome": None,
        "final": 0.72,
    }


def test_a_result_names_what_it_cites() -> None:
    result = a_result()
    assert (result.title, result.section, result.document_id) == ("Restart", "Steps > First", "0" * 32)


def test_a_result_without_metadata_has_empty_names() -> None:
    result = RetrievalResult("x", 0.1, "internal", "c", "s", "t", 1.0)
    assert (result.title, result.section, result.document_id) == ("", "", "")


def test_an_answer_is_json() -> None:
    answer = Answer(
        "why?", (a_result(),), partial=True, notes=("the vector leg is missing",), timings_ms={"embed": 1.23456}
    )
    data = json.loads(json.dumps(answer.to_json()))
    assert (data["query"], data["partial"], data["notes"]) == ("why?", True, ["the vector leg is missing"])
    assert data["timingsMs"] == {"embed": 1.235}
    assert data["results"][0]["trustScore"] == 1.0
