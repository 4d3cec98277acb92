"""What the rules of extraction are given: a document, and its passages one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.graph import EdgeStatement, NodeStatement
from opx.domain.remarks import Remark

Statement = NodeStatement | EdgeStatement

Facts = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Material:
    """A document that was read. `own` is the reference of what it is about; `facts` are the fields of its metadata that
    mean nothing to the catalog, as lists of texts without secrets; `open` gives the object's bytes as they are."""

    document: KnowledgeDocument
    own: str
    facts: Facts
    open: Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(slots=True)
class Findings:
    """What the rules have found since it was last looked at; a rule adds to it."""

    statements: list[Statement] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    aliases: list[tuple[str, str]] = field(default_factory=list)
    """Other names of things, each before the reference of the thing; all are references."""
    notes: dict[str, str] = field(default_factory=dict)
    """What a rule that reads passages wants to know when it reads the next one."""

    def add(self, *statements: Statement) -> None:
        self.statements.extend(statements)


DocumentRule = Callable[[Material, Findings], None]
"""Reads the metadata, or the object as a whole. Where its statements have no passages, those that name the thing (of an
edge: both ends, or else the one that the document isn't about, or else its source) are looked for, and the first passage
stands for the document if there are none."""

ChunkRule = Callable[[Material, DocumentChunk, Findings], None]
"""Reads one passage, and gives it as evidence of each of its statements. It is given each line once and whole, with the
first passage that it begins in: see `whole_lines`."""

Passages = Callable[[], Iterable[DocumentChunk]]
"""The passages of a document, from the first one, each time it is called."""

PassagesRule = Callable[[Material, Passages, Findings], None]
"""Reads all passages together, and gives the evidence of its statements itself."""
