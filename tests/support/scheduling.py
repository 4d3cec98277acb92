"""Distributes tests to processes, so that shared fixtures are built once and not once per process."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = (
    "tests/infra/",  # synthesised stacks
    "tests/quality/test_own_questions.py",  # answers to all questions
    "tests/quality/test_answers.py",
    "tests/e2e/test_incidents_over_mcp.py",  # the example corpus
    "tests/unit/test_architecture.py",  # the imports of all files
)


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of each of these folders or modules to one process, and any other test to a free one.

    xdist's own groups don't do it: they write to a test's name what pytest 9.2 reads from elsewhere.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)
