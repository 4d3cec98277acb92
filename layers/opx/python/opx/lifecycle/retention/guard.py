"""Stops a pruning run that would remove much more than usual: a policy shortened by mistake, a clock that is years ahead.

The section `retention` of knowledge.yaml sets the limits:

retention: {max_share: 0.2, at_least: 20}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from opx.lifecycle.report import Excess
from opx.runtime.knowledge_file import read_section

MAX_SHARE, AT_LEAST = 0.2, 20


@dataclass(frozen=True, slots=True)
class GuardRules:
    """A run stops if more than `max_share` of a category or of all versions would be removed, and at least `at_least`."""

    max_share: float = MAX_SHARE
    at_least: int = AT_LEAST


class Guard:
    """Compares the number of due versions with all. `count` returns the number of versions of a category, up to the given
    limit."""

    def __init__(self, rules: GuardRules, count: Callable[[str, int], int]) -> None:
        self._rules = rules
        self._count = count

    def is_suspicious(self, category: str, due: int) -> bool:
        """True if more of a category is due than may be removed at once. Counts only as many versions as decide that."""
        if due < self._rules.at_least:
            return False
        enough = self._enough(due)
        return self._count(category, enough) < enough

    def excess(self, due: Mapping[str, int], categories: Mapping[str, tuple[str, str]]) -> list[Excess]:
        """Excessive removals, by category and then as a whole. `categories` are all categories with their retention before
        and now."""
        found = []
        for category, count in sorted(due.items()):
            if self.is_suspicious(category, count):
                total = self._count(category, self._enough(count))
                found.append(Excess(category, count, max(total, count), *categories.get(category, ("", ""))))
        everything = sum(due.values())
        if everything >= self._rules.at_least:
            enough, total = self._enough(everything), 0
            for category in categories:
                total += self._count(category, enough - total)
                if total >= enough:
                    return found
            found.append(Excess("", everything, max(total, everything)))
        return found

    def _enough(self, due: int) -> int:
        """Smallest total of which `due` versions are within the allowed share."""
        share = self._rules.max_share
        return math.ceil(due / share - 1e-9) if share else 2**31


def read_guard_rules(path: Path | None = None) -> GuardRules:
    """Reads the section of knowledge.yaml. Raises `KnowledgeConfigError` for a share outside of 0 to 1, or a number
    below 0."""
    section = read_section("retention", path)
    if section is None:
        return GuardRules()
    fields = section.fields(optional=("max_share", "at_least"))
    share = fields["max_share"].number() if "max_share" in fields else MAX_SHARE
    at_least = fields["at_least"].number() if "at_least" in fields else AT_LEAST
    if not 0 < share <= 1:
        raise fields["max_share"].error(f"max_share {share:g} must be above 0 and at most 1, such as 0.2 for a fifth")
    if at_least < 0 or at_least != int(at_least):
        raise fields["at_least"].error(f"at_least {at_least:g} must be a whole number, 0 or more")
    return GuardRules(share, int(at_least))
