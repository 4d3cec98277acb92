"""A home whose documents were pulled by real connectors, for tests of what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.cli_support import Opx

PERMANENT = "runbooks/architecture"
"""A category that keeps documents of any age."""


class PulledHome:
    """Adds sources to a home and pulls them, with the command alone."""

    def __init__(self, opx: Opx, site: MisbehavingSite) -> None:
        self._opx = opx
        self._site = site

    def pull(self, source_id: str, kind: str, options: Mapping[str, Any], category: str = PERMANENT) -> None:
        given = [text for name, value in options.items() for text in ("--option", f"{name}={json.dumps(value)}")]
        self._run("source", "add", source_id, "--kind", kind, "--category", category, *given)
        self._run("source", "pull", source_id)

    def node(self, reference: str) -> dict[str, Any]:
        """The answer of `opx graph show`."""
        found: dict[str, Any] = json.loads(self._run("graph", "show", reference, "--json"))
        return found

    def edges(self, reference: str) -> set[str]:
        found = self.node(reference)
        return {f"{one['from']} {one['edgeType']} {one['to']}" for one in found["edges"]}

    def title(self, reference: str) -> str:
        """The title that the node has from its own document."""
        node = self.node(reference)["node"]
        assert node["declared"], f"{reference} is only mentioned"
        return str(node["properties"]["title"])

    def has(self, reference: str) -> bool:
        return self._opx("graph", "show", reference).exit_code == 0

    def _run(self, *arguments: str) -> str:
        result = self._opx(*arguments, OPX_ALLOWED_HOSTS=self._site.host)
        assert result.exit_code == 0, result.output
        return result.stdout
