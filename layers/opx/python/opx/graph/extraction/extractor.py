"""What the pipeline is given to find out what documents say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

from opx.domain.documents import KnowledgeDocument
from opx.domain.graph import Origin, Statements
from opx.graph.extraction.material import ChunkRule, Material, Passages, PassagesRule
from opx.graph.extraction.own_node import own_reference
from opx.graph.extraction.run import extract
from opx.graph.said import said


@dataclass(frozen=True, slots=True)
class Extractor:
    """All rules, and those that need more than the document: `known` read one passage each, `whole` all together."""

    known: Sequence[ChunkRule] = ()
    whole: Sequence[PassagesRule] = ()

    def __call__(
        self,
        document: KnowledgeDocument,
        facts: Mapping[str, tuple[str, ...]],
        passages: Passages,
        opened: Callable[[], AbstractContextManager[BinaryIO]],
    ) -> Statements:
        """What the document says. Raises as `extract`, and `InvalidInputError` if the graph's store would refuse it: then
        other documents of a batch are at stake."""
        material = Material(document, own_reference(document, facts), facts, opened)
        found = extract(material, passages, known=self.known, whole=self.whole)
        said(Origin.of(document), found, "")
        return found
