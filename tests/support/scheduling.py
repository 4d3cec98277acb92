"""Distributes tests to processes, so that shared fixtures are built once and not once per process."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = ("tests/infra/",)
"""Folders whose modules share fixtures: synthesised stacks."""


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of a module, or of one of these folders, to one process, the largest first.

    xdist's own groups don't do it: they write to a test's name what pytest 9.2 reads from elsewhere.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])
