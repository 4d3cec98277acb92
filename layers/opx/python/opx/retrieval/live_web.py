"""The live web as the last place to look, where it is enabled and nothing else covers a question."""

from __future__ import annotations

from collections.abc import Callable

from opx.domain.results import Answer, RetrievalResult, TierStep
from opx.retrieval.asking import Asked

LIVE = "live"
Internet = Callable[[str, int], Answer]


def live_results(
    asked: Asked, internet: Internet | None, covered: int, enough: int
) -> tuple[tuple[RetrievalResult, ...], tuple[TierStep, ...]]:
    """What a live search adds, and the step that says why there was one or none. Nothing where there is no engine."""
    from opx.websearch.service import BEST_CONFIDENCE

    config = asked.config
    if internet is None or not config.include_internet:
        return (), ()
    if config.as_of:
        return (), (TierStep(LIVE, False, "the web of then can't be searched"),)
    if covered >= enough:
        return (), (TierStep(LIVE, False, f"{covered} documents have a good result"),)
    if config.min_confidence > BEST_CONFIDENCE:
        reason = f"a live result is never surer than {BEST_CONFIDENCE:g}, and {config.min_confidence:g} is asked for"
        return (), (TierStep(LIVE, False, reason),)
    with asked.timed("internet"):
        answer = internet(asked.text, config.max_results)
    asked.partial |= answer.partial
    for note in answer.notes:
        asked.note(note)
    good = tuple(result for result in answer.results if result.confidence >= config.min_confidence)
    best = max((result.confidence for result in answer.results), default=0.0)
    return good, (
        TierStep(LIVE, True, f"{covered} documents have a good result, fewer than {enough}", len(good), best),
    )
