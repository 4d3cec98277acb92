"""Things and relations, as they are put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from opx.composition.corpus import CorpusServices
from opx.domain.scopes import Identity, Reader
from opx.domain.times import iso_time
from opx.tables import ALIASES, GRAPH

if TYPE_CHECKING:
    from opx.domain.documents import KnowledgeDocument
    from opx.graph.aliases import AliasRegistry
    from opx.graph.extraction.extractor import Extractor
    from opx.graph.extraction.mentions import KnownNames
    from opx.graph.extraction.model import ModelExtraction
    from opx.graph.knowledge_graph import KnowledgeGraph
    from opx.graph.merging import Merging
    from opx.graph.naming_writer import NamingWriter
    from opx.graph.passages import PassageReader
    from opx.graph.store import GraphStore


class GraphServices(CorpusServices):
    """The graph, its names, and what finds them in documents."""

    @cached_property
    def aliases(self) -> AliasRegistry:
        """Other names of things."""
        from opx.graph.aliases import AliasRegistry

        return AliasRegistry(self.table(ALIASES), clock=self.clock)

    @cached_property
    def graph_store(self) -> GraphStore:
        """What documents say of things, of all scopes."""
        from opx.graph.store import GraphStore

        return GraphStore(self.table(GRAPH), self.clock, aliases=self.aliases, threads=self.read_threads)

    def graph(self, identity: Identity | None = None) -> KnowledgeGraph:
        """Things and relations as this identity may know them, or the one that the installation is configured for."""
        return self._graph_of(self.projects.reader(self.identity_of(identity)))

    def _graph_of(self, reader: Reader) -> KnowledgeGraph:
        from opx.graph.aliased import AliasedReads
        from opx.graph.knowledge_graph import KnowledgeGraph

        return KnowledgeGraph(AliasedReads(self.graph_store, self.aliases), reader, self.aliases)

    def passage_reader(self, reader: Reader) -> PassageReader:
        """Reads the passages behind relations, of documents that may be shown."""
        from opx.graph.passages import PassageReader
        from opx.retrieval.judging import expired_since

        def expired(document: KnowledgeDocument) -> str:
            return expired_since(document, self.knowledge, iso_time(self.clock()))

        return PassageReader(self.catalog, self.store, reader, expired=expired, threads=self.read_threads)

    @cached_property
    def merging(self) -> Merging:
        """Makes two things one."""
        from opx.graph.merging import Merging

        return Merging(self.table(ALIASES), self.aliases, self.graph_store, clock=self.clock)

    @cached_property
    def model_extraction(self) -> ModelExtraction | None:
        """Has a model read relations out of passages; None if none is chosen for that."""
        if not self.settings.graph_model:
            return None
        from opx.graph.extraction.model import ModelExtraction

        return ModelExtraction(self.chat_model(self.settings.graph_model), self.written_texts)

    @cached_property
    def known_names(self) -> KnownNames:
        """The names that documents may mention."""
        from opx.graph.extraction.mentions import MAX_NAMES, KnownNames

        def aliases(scopes: Sequence[str]) -> list[str]:
            return [one.alias for one in self.aliases.aliases(scopes, limit=MAX_NAMES)]

        return KnownNames(self.graph_store, aliases)

    @cached_property
    def extractor(self) -> Extractor:
        """Finds what documents say of things."""
        from opx.graph.extraction.extractor import Extractor

        model = self.model_extraction
        return Extractor(known=(self.known_names.mentions,), whole=(model.relations,) if model else ())

    @cached_property
    def graph_writer(self) -> NamingWriter:
        """The graph's store, for the pipeline."""
        from opx.graph.naming_writer import NamingWriter

        return NamingWriter(self.graph_store, self.known_names)
