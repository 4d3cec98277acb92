"""Who is to close a gap: the section `owners` of knowledge.yaml, else the author of the nearest document.

owners:
  payments: team-payments              # a service
  runbooks/procedures: sre             # a category, or the beginning of one's path
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from opx.domain.knowledge import KnowledgeModel
from opx.records.gaps.model import Gap
from opx.runtime.knowledge_file import read_section

_WORDS = re.compile(r"[\w.-]+")
_MAX_CHARACTERS = 100


class Owners:
    """Owners by service, and by the category of what is nearest."""

    def __init__(self, services: Mapping[str, str], categories: Mapping[str, str]) -> None:
        self._services = {name.casefold(): owner for name, owner in services.items()}
        self._categories = dict(categories)

    @property
    def names(self) -> tuple[str, ...]:
        """Every owner, once."""
        return tuple(sorted({*self._services.values(), *self._categories.values()}))

    def services_in(self, question: str) -> tuple[str, ...]:
        """Those of the known services whose names are words of a question, in order of the alphabet."""
        words = {word.strip(".-") for word in _WORDS.findall(question.casefold())}
        return tuple(sorted(words & self._services.keys()))

    def of(self, gap: Gap) -> str:
        """The owner of a gap, "" if nobody is."""
        for service in gap.services:
            if service.casefold() in self._services:
                return self._services[service.casefold()]
        asked = gap.nearest.category or next(iter(gap.categories), "")
        return self._of_category(asked) or gap.nearest.author

    def _of_category(self, path: str) -> str:
        """The owner of the longest beginning of the path that has one."""
        names = path.split("/")
        beginnings = ("/".join(names[:count]) for count in range(len(names), 0, -1))
        return next((self._categories[path] for path in beginnings if path in self._categories), "")


def read_owners(knowledge: KnowledgeModel, path: Path | None = None) -> Owners:
    """The owners that knowledge.yaml names. Raises `KnowledgeConfigError` for a value that is no text, or is long, and
    for a key with a `/` that no category's path begins with."""
    section = read_section("owners", path)
    services: dict[str, str] = {}
    categories: dict[str, str] = {}
    known = {
        "/".join(path.split("/")[:count]) for path in knowledge.categories for count in range(1, path.count("/") + 2)
    }
    for name, value in section.entries().items() if section else ():
        owner = value.text()
        if len(owner) > _MAX_CHARACTERS:
            raise value.error(f"an owner has at most {_MAX_CHARACTERS} characters")
        if "/" in name and name not in known:
            raise value.error(f"no category is {name!r} or below it; allowed: {', '.join(sorted(known))}")
        (categories if name in known else services)[name] = owner
    return Owners(services, categories)
