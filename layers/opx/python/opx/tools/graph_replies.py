"""The answers of `opx.operations.graph_answers`, with the JSON that the tools' runtimes ask for."""

from __future__ import annotations

from typing import Any

from opx.operations.graph_answers import RelatedAnswer, RelationAnswer


class RelatedReply(RelatedAnswer):
    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return self.record().to_json()


class RelationReply(RelationAnswer):
    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return self.record().to_json()
