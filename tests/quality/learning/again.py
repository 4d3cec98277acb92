"""Measures repeated captures: the same solution in other words, and another solution of a known problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from opx.domain.scopes import Identity
from opx.operations.system import System
from tests.quality.learning.cases import HELD_OUT, TUNED, Case, Repeat
from tests.quality.learning.figures import share
from tests.quality.learning.world import ASKING, CLIENT, capture

THIRD = Identity(CLIENT, "third-shop")


def teach_again(services: System, repeats: Sequence[Repeat]) -> dict[str, str]:
    """Captures the repeats for a third project; returns the pattern id of each."""
    entries = {repeat.taught.id: capture(services, THIRD, repeat.taught) for repeat in repeats}
    services.learning.checkpoints(THIRD).process_checkpoint(THIRD.project_id, "project_completion")
    list(services.manager.work())
    return {name: services.learning.capture(THIRD).entry(entry).pattern_id for name, entry in entries.items()}


def lines(
    services: System,
    names: Mapping[str, str],
    cases: Sequence[Case],
    repeats: Sequence[Repeat],
    found: Mapping[str, str],
) -> Iterator[str]:
    """Lines with the repetitions that were counted for their pattern, the other solutions that were mistaken for a known
    one, and the share of problems with two solutions for which both are returned."""
    for half in (TUNED, HELD_OUT):
        some = [repeat for repeat in repeats if repeat.half == half]
        same = [names.get(found[one.taught.id]) == one.about for one in some if one.same]
        wrong = [found[one.taught.id] in names for one in some if not one.same]
        yield (
            f"{half:8} recognised {sum(same)} of {len(same)} repetitions, took {sum(wrong)} of {len(wrong)} other ways for a "
            f"known one; both ways returned for {share(_both(services, names, cases, some, found)):.2f} of those with any"
        )


def _both(
    services: System,
    names: Mapping[str, str],
    cases: Sequence[Case],
    repeats: Sequence[Repeat],
    found: Mapping[str, str],
) -> Iterator[float]:
    query = services.pattern_queries.of(ASKING)
    for repeat in repeats:
        case = next(case for case in cases if case.expects == repeat.about and case.query_kind == "failure")
        if repeat.same:
            continue
        returned = query.query_for_failure(case.text, case.error_message, case.agent_type, case.task_type)
        ids = [pattern.pattern_id for pattern in returned]
        ways = [found[repeat.taught.id] in ids, repeat.about in [names.get(one) for one in ids]]
        if any(ways):
            yield float(all(ways))
