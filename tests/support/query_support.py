"""Questions over an index alone, with the stages of an answer that need nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from opx.domain.knowledge import KnowledgeModel
from opx.domain.results import EvidencePack
from opx.domain.scopes import Reader
from opx.errors import IndexUnavailableError
from opx.ports import Embedder, SearchRequest, SearchResponse
from opx.retrieval.judging import Validity
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.searching import SearchRules, TierSearch
from opx.retrieval.stages import (
    AddLearnt,
    ByIndex,
    LiveWeb,
    Outcomes,
    Rank,
    Relate,
    RelaxPhrases,
    Reword,
    ShowResults,
    Stage,
)


class RecordingIndex:
    """An index that keeps the requests, and fails for some."""

    derives_ids = True

    def __init__(self, index: Any) -> None:
        self._index = index
        self.requests: list[SearchRequest] = []
        self.fails: Callable[[SearchRequest], bool] = lambda request: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(self, request: SearchRequest) -> SearchResponse:
        self.requests.append(request)
        if self.fails(request):
            raise IndexUnavailableError("down")
        found: SearchResponse = self._index.search(request)
        return found


def a_knowledge_query(
    index: Any,
    embedder: Embedder | None,
    knowledge: KnowledgeModel,
    reader: Reader,
    *,
    rules: SearchRules | None = None,
    internet: Any = None,
    experience: Any = None,
    learnt: Any = None,
) -> KnowledgeQuery:
    """`internet`, `experience` and `learnt` are collaborators of `LiveWeb`, `Outcomes` and `AddLearnt`."""
    search = TierSearch(embedder, knowledge, rules or SearchRules())
    related = Relate(lambda: lambda _: (EvidencePack(), ()))
    searches: list[Stage] = [search, RelaxPhrases(search)]
    if search.rules.reword:
        searches.append(Reword(search))
    if learnt:
        searches.append(AddLearnt(search, learnt))
    stages: list[Stage] = [
        ByIndex(index, lambda *_: index, lambda: False, searches, related),
        *([Outcomes(experience)] if experience else []),
        Rank(),
        *([LiveWeb(internet)] if internet else []),
        ShowResults(lambda _: {}),
    ]
    return KnowledgeQuery(stages=stages, knowledge=knowledge, reader=reader, validity=Validity(knowledge, time.time))
