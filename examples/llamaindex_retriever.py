"""Answers from the knowledge base with a LlamaIndex query engine over a retriever.

    OPX_HOME=.opx OPENAI_API_KEY=... python -m examples.llamaindex_retriever "disk full on a Linux host"

Needs `llama-index-core` and `llama-index-llms-openai`.
"""

from __future__ import annotations

import sys

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.llms.openai import OpenAI

from examples.knowledge import open_system
from opx.domain.queries import QueryConfig
from opx.domain.results import RetrievalResult
from opx.domain.scopes import Identity
from opx.retrieval.citations import citation
from opx.retrieval.query import KnowledgeQuery

CONFIG = QueryConfig(min_confidence=0.2, max_results=5)


class OpxRetriever(BaseRetriever):
    """Passages for one identity. `search` is `system.questions.for_reader(identity)`."""

    def __init__(self, search: KnowledgeQuery) -> None:
        super().__init__()
        self._search = search

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._search.search(query_bundle.query_str, CONFIG).results
        return [NodeWithScore(node=node_of(result), score=result.score) for result in found]


def node_of(result: RetrievalResult) -> TextNode:
    """A passage with its source; text from outside is in a frame."""
    metadata = {"title": result.title, "source": result.source, "band": str(result.band)}
    return TextNode(
        id_=result.metadata["chunkId"],
        text=citation(result),
        metadata=metadata,
        excluded_llm_metadata_keys=list(metadata),
    )


def main(question: str) -> None:
    with open_system() as system:
        retriever = OpxRetriever(system.questions.for_reader(Identity()))
        engine = RetrieverQueryEngine.from_args(retriever, llm=OpenAI(model="gpt-4.1-mini"))
        answer = engine.query(question)
        print(answer)
        for node in answer.source_nodes:
            print(f"{node.score:.2f} {node.metadata['band']} {node.metadata['title']}")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
