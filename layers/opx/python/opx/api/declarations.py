"""What a route of the HTTP API is, and the fields that several have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from opx.api.fields import Field, Kind
from opx.domain.knowledge import Tier

MAX_ID_CHARACTERS = 100
MAX_KEY_CHARACTERS = 1024
DEFAULT_KNOWLEDGE_BASE = "default"


class Function(StrEnum):
    """Folders of `lambdas/`: one reads, the other may write."""

    RETRIEVE = "retrieve_knowledge"
    MANAGE = "manage_knowledge"


class TokenScope(StrEnum):
    """What a token must have, one of them, to write. ADMIN may also write what everyone sees."""

    WRITE = "opx/write"
    ADMIN = "opx/admin"


@dataclass(frozen=True, slots=True)
class Route:
    """One operation. `name` is that of the method which does it; `path` is written as API Gateway takes it, where
    `{x+}` stands for several segments. `scopes`: a token has one of them, or there are none to have. `status` is that
    of success. `form`: besides JSON, the route takes files in a form with these fields."""

    name: str
    method: str
    path: str
    function: Function
    about: str
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | None = None
    form: tuple[Field, ...] | None = None
    scopes: tuple[TokenScope, ...] = ()
    status: int = 200

    @property
    def key(self) -> str:
        """As API Gateway names it, in its configuration and in events."""
        return f"{self.method} {self.path}"

    @property
    def path_fields(self) -> tuple[Field, ...]:
        return tuple(PATH_FIELDS[name] for name in re.findall(r"{(\w+)\+?}", self.path))


def text_field(name: str, about: str, maximum: int = MAX_ID_CHARACTERS, **more: object) -> Field:
    """A text with an end."""
    return Field(name, Kind.TEXT, about, maximum=maximum, **more)  # type: ignore[arg-type]


PATH_FIELDS = {
    field.name: field
    for field in (
        text_field("kbId", f"The environment's name, or `{DEFAULT_KNOWLEDGE_BASE}`.", required=True),
        text_field("documentId", "The document id, as results give it.", required=True),
        text_field("tier", "The category's tier.", required=True, choices=tuple(Tier)),
        text_field("category", "A category: its path, slashes included.", required=True),
        text_field("clientId", "A client.", required=True),
        text_field("projectId", "A project of the client's.", required=True),
        text_field("mergeId", "The id of a merge.", required=True),
        text_field("entryId", "The id of an entry, as capturing it gave it.", required=True),
        text_field("patternId", "The id of a pattern.", required=True),
        text_field("holdId", "The id of a hold.", required=True),
        text_field("sourceId", "The id of a source.", 48, required=True),
    )
}
"""What stands in the paths of routes, by name."""

AFTER = text_field("after", "`next` of the page before; left out for the first page.", 4096)
