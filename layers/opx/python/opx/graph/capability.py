"""Composes the graph: store, aliases, readers, and extraction of nodes and edges from documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opx.domain.ids import iso_time
from opx.domain.scopes import Identity, Reader, Scope, reader_of
from opx.ingestion.corpus.capability import Corpus
from opx.ports import ChatModel, Storage, Tables
from opx.ports.tables import ALIASES, EMBEDDINGS, GRAPH
from opx.retrieval.judging import expired_since
from opx.runtime.knowledge_file import Installation

if TYPE_CHECKING:
    from opx.domain.documents import KnowledgeDocument
    from opx.graph.aliases import AliasRegistry
    from opx.graph.bindings import Bindings, Runbooks
    from opx.graph.expansion import GraphExpansion
    from opx.graph.extraction.extractor import Extractor
    from opx.graph.extraction.mentions import KnownNames
    from opx.graph.extraction.model import ModelExtraction
    from opx.graph.knowledge_graph import KnowledgeGraph
    from opx.graph.merging import Merging
    from opx.graph.naming import NamingWriter
    from opx.graph.passages import PassageReader
    from opx.graph.relink_queue import RelinkQueue
    from opx.graph.store import GraphStore
    from opx.ingestion.contexts import ContextCache


_TEXTS = ("title", "name", "summary")
"""Properties of a node that describe it."""


@dataclass(eq=False)
class Graph:
    """Nodes and edges of all scopes. `new_chat` returns the language model with a name."""

    installation: Installation
    tables: Tables
    storage: Storage
    corpus: Corpus
    new_chat: Callable[[str], ChatModel]

    @cached_property
    def aliases(self) -> AliasRegistry:
        """Other names of nodes."""
        from opx.graph.aliases import AliasRegistry

        return AliasRegistry(self.tables.table(ALIASES), clock=self.installation.clock)

    @cached_property
    def store(self) -> GraphStore:
        """The statements of documents, of all scopes."""
        from opx.graph.store import GraphStore

        table, threads = self.tables.table(GRAPH), self.tables.read_threads
        return GraphStore(table, self.installation.clock, aliases=self.aliases, threads=threads)

    def seen_by(self, identity: Identity | None = None) -> KnowledgeGraph:
        """The graph as this identity may see it, or the one that the installation is configured for."""
        return self.of(self.corpus.projects.reader(self.installation.identity_of(identity)))

    def of(self, reader: Reader) -> KnowledgeGraph:
        """The graph as this reader may see it."""
        from opx.graph.aliased import AliasedReads
        from opx.graph.knowledge_graph import KnowledgeGraph

        return KnowledgeGraph(AliasedReads(self.store, self.aliases), reader, self.aliases)

    def incident_text(self, scope: Scope, name: str) -> str:
        """Title, name and summary of an incident's node, as readers of the scope see it; "" if there is none. Raises
        `StoreUnavailableError`."""
        from opx.graph.extraction.own_node import read_id

        key = read_id(name, "incident")
        identity = Identity(scope.client_id, scope.project_id)
        found = self.of(reader_of(identity, scope.group_id)).nodes([key]) if key else ()
        return " ".join(str(node.properties[text]) for node in found for text in _TEXTS if text in node.properties)

    def expansion(self, reader: Reader) -> GraphExpansion:
        """Follows edges from the hits of a search."""
        from opx.graph.expansion import GraphExpansion

        installation = self.installation
        return GraphExpansion(
            self.of(reader),
            self.passage_reader(reader),
            clock=installation.clock,
            seconds=installation.settings.graph_seconds,
        )

    def bindings(self, reader: Reader, alerts: Sequence[str], labels: Mapping[str, str] | None = None) -> Bindings:
        """The runbooks that alerts are bound to, by their references; `labels` are those of an alert."""
        from opx.graph.bindings import Bindings

        return Bindings(self.of(reader), lambda: self.runbooks(reader), alerts, labels or {})

    def named_runbooks(self, reader: Reader, alert: str, labels: Mapping[str, str], runbook: str) -> dict[str, str]:
        """The ids of the documents that an alert itself (`runbook`, "" for none) or else its rules name, with reasons;
        without those that rules name for other labels."""
        from opx.graph.bindings import named_runbooks

        return named_runbooks(self.of(reader), lambda: self.runbooks(reader), alert, labels, runbook)

    def runbooks(self, reader: Reader) -> Runbooks:
        """The current runbooks that this reader may see."""
        from opx.graph.bindings import Runbooks
        from opx.graph.extraction.own_node import is_runbook_category

        categories = sorted(filter(is_runbook_category, self.installation.knowledge.categories))
        found = self.corpus.catalog.visible(reader.visible, categories=categories)
        return Runbooks((one for one in found if not self._expired_since(one)), reader.visible)

    def passage_reader(self, reader: Reader) -> PassageReader:
        """Reads the passages behind nodes and edges, of documents that may be shown."""
        from opx.graph.passages import PassageReader

        corpus, threads = self.corpus, self.storage.read_threads
        return PassageReader(corpus.catalog, corpus.store, reader, expired=self._expired_since, threads=threads)

    def _expired_since(self, document: KnowledgeDocument) -> str:
        return expired_since(document, self.installation.knowledge, iso_time(self.installation.clock()))

    @cached_property
    def merging(self) -> Merging:
        """Merges nodes."""
        from opx.graph.merging import Merging

        return Merging(self.tables.table(ALIASES), self.aliases, self.store, clock=self.installation.clock)

    @cached_property
    def written_texts(self) -> ContextCache:
        """The cache of texts that language models generated for passages."""
        from opx.ingestion.contexts import ContextCache

        days = self.installation.settings.embedding_cache_days
        return ContextCache(self.tables.table(EMBEDDINGS), days=days, clock=self.installation.clock)

    @cached_property
    def model_extraction(self) -> ModelExtraction | None:
        """Extracts edges from passages with a language model; None if none is configured."""
        model = self.installation.settings.graph_model
        if not model:
            return None
        from opx.graph.extraction.model import ModelExtraction

        return ModelExtraction(self.new_chat(model), self.written_texts)

    @cached_property
    def known_names(self) -> KnownNames:
        """The names that documents may mention."""
        from opx.graph.extraction.mentions import MAX_NAMES, KnownNames

        def aliases(scopes: Sequence[str]) -> list[str]:
            return [one.alias for one in self.aliases.aliases(scopes, limit=MAX_NAMES)]

        return KnownNames(self.store, aliases)

    @cached_property
    def extractor(self) -> Extractor:
        """Extracts nodes and edges from documents."""
        from opx.graph.extraction.extractor import Extractor

        model = self.model_extraction
        return Extractor(known=(self.known_names.mentions,), whole=(model.relations,) if model else ())

    @cached_property
    def writer(self) -> NamingWriter:
        """The graph's store for the pipeline, which queues newly declared names."""
        from opx.graph.naming import NamingWriter

        return NamingWriter(self.store, self.known_names, self.relink_queue)

    @cached_property
    def relink_queue(self) -> RelinkQueue:
        """Newly declared names that earlier documents may use."""
        from opx.graph.relink_queue import RelinkQueue

        return RelinkQueue(self.tables.table(GRAPH), self.installation.clock)
