"""The operations that read, for one caller."""

from __future__ import annotations

from functools import partial
from itertools import dropwhile
from typing import TYPE_CHECKING

from opx import wire
from opx.api.baselines import BaselineReading
from opx.api.calls import Call
from opx.api.fields import Json
from opx.api.graph import GraphReading
from opx.api.http_events import Caller
from opx.api.learning import LearningReading
from opx.api.pages import fitting_page, taken
from opx.api.research import ResearchReading
from opx.api.versions import VersionReading
from opx.domain.knowledge import Tier
from opx.domain.queries import Expand, QueryConfig, SearchMode
from opx.domain.results import Answer, RetrievalResult
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.records.gaps.listing import GapView
from opx.runtime.metrics import Report

if TYPE_CHECKING:
    from opx.services import Services

KEYS_A_PAGE = 5000
"""A page of keys begins by listing those of the pages before, hence few and long ones."""

_CHUNKS_A_PAGE = 10_000


class ReadingApi(BaselineReading, ResearchReading, GraphReading, LearningReading, VersionReading):
    """Answers, documents and what became of them, as far as the caller may see them. A method a route."""

    def __init__(self, services: Services, caller: Caller, report: Report) -> None:
        self._base = LocalKnowledgeBase(services, caller.identity)
        self._clock = services.clock
        self._is_operator = not caller.identity.client_id
        self._ask = partial(services.query_service, caller.identity, report)
        self._researcher = partial(services.research_service, caller.identity, report)

    def search(self, call: Call) -> Json:
        asked = call.query
        tiers = asked.get("tier", QueryConfig().tiers)
        config = QueryConfig(
            tiers=tiers,
            categories=asked.get("category"),
            tags=asked.get("tag", ()),
            max_results=asked["limit"],
            mode=SearchMode(asked["thoroughness"]),
            include_internet=Tier.INTERNET in tiers,  # who names the tier wants it searched
            services=asked.get("service", ()),
            updated_from=asked.get("updatedFrom", ""),
            updated_before=asked.get("updatedBefore", ""),
            expand=Expand(asked["expand"]),
            plain=asked["plain"],
            expand_graph=asked["graph"],
            as_of=asked.get("asOf", ""),
        )
        answer = self._ask().answer(asked["q"], config)
        results = [{**result.to_json(), **_flat(result)} for result in answer.results]
        return {**wire.answer_to_json(answer), "results": results, **_receipt(answer, wanted=asked["receipt"])}

    def query(self, call: Call) -> Json:
        config = wire.config_from_json(call.body.get("config", {}))
        answer = self._ask().answer(call.body["query"], config)
        return {**wire.answer_to_json(answer), **_receipt(answer, wanted=call.body["receipt"])}

    def documents(self, call: Call) -> Json:
        asked = call.query
        items, after = fitting_page(
            lambda limit: self._base.documents(
                category=asked.get("category", ""),
                all_versions=asked["allVersions"],
                limit=limit,
                after=asked.get("after", ""),
            ),
            asked["limit"],
            wire.document_to_json,
        )
        return {"documents": items, **_next(after)}

    def document(self, call: Call) -> Json:
        after = call.query["after"]
        found = self._base.document(call.path["documentId"])
        versions, more = taken(found.versions[after:], wire.document_to_json, len(found.versions))
        following = {"next": after + len(versions)} if more else {}
        return {"document": wire.document_to_json(found.document), "versions": versions, **following}

    def chunks(self, call: Call) -> Json:
        after = call.query["after"]
        chunks = self._base.chunks(call.path["documentId"].lower(), after=after)
        found, more = taken(chunks, wire.chunk_to_json, _CHUNKS_A_PAGE)
        return {"chunks": found, **({"next": after + len(found)} if more else {})}

    def categories(self, _: Call) -> Json:
        return wire.categories_to_json(self._base.knowledge)

    def status(self, _: Call) -> Json:
        return wire.status_to_json(self._base.status())

    def failures(self, call: Call) -> Json:
        after = call.query.get("after", "")
        items, following = fitting_page(
            lambda limit: self._base.failures(limit=limit, after=after), call.query["limit"], wire.failure_to_json
        )
        return {"failures": items, **_next(following)}

    def audit(self, call: Call) -> Json:
        asked = call.query
        records = self._base.audit_records(
            who=asked.get("who", ""),
            since=asked.get("since", ""),
            document=asked.get("documentId", ""),
            limit=asked["limit"],
            every_scope=self._is_operator,
        )
        return {"records": [record.to_json() for record in records]}

    def gaps(self, call: Call) -> Json:
        asked = call.query
        found = self._base.gaps(
            service=asked.get("service", ""), owner=asked.get("owner", ""), settled=asked["settled"]
        )
        shown, more = taken(found, GapView.to_json, len(found))
        return {"gaps": shown, "more": more, "dropped": self._base.dropped_gaps()}

    def objects(self, call: Call) -> Json:
        after = call.query.get("after", "")
        keys = dropwhile(lambda key: key <= after, self._base.stored_under(call.query["under"]))
        found, more = taken(keys, str, KEYS_A_PAGE)
        return {"objectKeys": found, **_next(found[-1] if more else "")}


def _receipt(answer: Answer, *, wanted: bool) -> Json:
    return {"receipt": dict(answer.receipt)} if wanted and answer.receipt else {}


def _flat(result: RetrievalResult) -> Json:
    """What a person reads first, ready to be shown."""
    return {"section": result.section, "relevance": f"{100 * result.confidence:.0f}%"}


def _next(after: str) -> Json:
    return {"next": after} if after else {}
