"""Which projects something was captured for, a row each: what a checkpoint is asked for can be checked."""

from __future__ import annotations

from collections.abc import Iterator

from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidScopeError, UnknownProjectError
from opx.learning.pattern_rows import projects_partition
from opx.ports import Table

DEFAULT_PROJECT = "default"
"""Of who belongs to no project and names none."""

_NAMED = 20


class LearningProjects:
    """The projects of scopes. A project is a name within the scope in which its entries are."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._noted: set[tuple[str, str]] = set()

    def note(self, scope_key: str, project_id: str) -> None:
        """Know a project from now on."""
        if (scope_key, project_id) not in self._noted:
            self._table.put({"place": projects_partition(scope_key), "entry": project_id})
            self._noted.add((scope_key, project_id))

    def all(self, scope_key: str) -> Iterator[str]:
        """Those of a scope, by name."""
        return (str(row["entry"]) for row in self._table.query(projects_partition(scope_key)))

    def is_known(self, scope_key: str, project_id: str) -> bool:
        return self._table.get({"place": projects_partition(scope_key), "entry": project_id}) is not None


def project_of(identity: Identity, given: str) -> str:
    """The project that is meant: the one given, else the identity's own, else `default`.

    Raises `UnknownProjectError` where the identity belongs to another one, and `InvalidScopeError` for a malformed name.
    """
    if not isinstance(given, str):
        raise InvalidScopeError(f"project id must be a text, not {type(given).__name__}")
    if identity.project_id and given not in ("", identity.project_id):
        Scope(identity.client_id, project_id=given)
        raise UnknownProjectError(f"{given} is not your project; you work for {identity.project_id}")
    found = given or identity.project_id or DEFAULT_PROJECT
    Scope(identity.client_id or "any", project_id=found)  # refuses what can't be a name
    return found


def unknown_project(project_id: str, known: Iterator[str]) -> UnknownProjectError:
    """The error, which names those that are known."""
    names = [name for name, _ in zip(known, range(_NAMED + 1), strict=False)]
    listed = ", ".join(names[:_NAMED]) + (", and others" if len(names) > _NAMED else "")
    return UnknownProjectError(
        f"nothing was captured for a project {project_id!r}; there {'is' if len(names) == 1 else 'are'}: {listed}"
        if names
        else f"nothing was captured for a project {project_id!r}, nor for any other here; capture something first"
    )
