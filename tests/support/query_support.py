"""Questions over an index alone, with the stages of an answer that need nothing else."""

from __future__ import annotations

import time
from typing import Any

from opx.domain.knowledge import KnowledgeModel
from opx.domain.results import EvidencePack
from opx.domain.scopes import Reader
from opx.ports import Embedder
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
