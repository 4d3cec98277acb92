"""Records gaps from answers without good results, with absent identifiers, and from readers' reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import iso_time, shortened
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Absent, Answer, RetrievalResult
from opx.domain.scopes import Reader
from opx.hygiene.secrets import mask
from opx.ports import Clock
from opx.records.audit import InstallationKey, scope_of
from opx.records.gaps.listing import Owners
from opx.records.gaps.log import GapLog, absent_gap_id, gap_id
from opx.records.gaps.model import Gap, Nearest, Wording, wording_of
from opx.retrieval.query import Answered
from opx.retrieval.receipts import plain_config

MAX_TEXT = 300
MAX_ABSENT = 3
"""Limit of gaps per question, one per absent identifier: each may read all gaps of its scope."""

DocumentOf = Callable[[str, Reader], KnowledgeDocument | None]
"""Looks up a document by id among those visible to a reader; None if it is gone."""


class GapRecorder:
    """Records the gaps of all readers, each in the reader's scope."""

    def __init__(self, gaps: GapLog, key: InstallationKey, owners: Owners, document: DocumentOf, clock: Clock) -> None:
        self._gaps = gaps
        self._key = key
        self._owners = owners
        self._document = document
        self._clock = clock

    def record(
        self, reader: Reader, answered: Answered, vector: Sequence[float] | None = None, model: str = ""
    ) -> None:
        """Record a question without a good answer, once per absent identifier, if any. `vector` is the question's, by
        `model`.

        Raises `StoreUnavailableError`.
        """
        config = answered.config
        wording = wording_of(shown(_words_of(answered)), vector, model)
        gap = replace(
            self._new_gap(reader, wording, tuple(sorted({*config.services, *config.resources}))),
            categories=tuple(sorted(config.categories or ())),
            nearest=self._nearest(_best(answered.answer), reader),
            config=plain_config(config),
        )
        for new in [_gap_of_absent(gap, one) for one in _kept_absent(answered)] or [gap]:
            self._gaps.add(new)

    def report(
        self, reader: Reader, question: str, missing: str, vector: Sequence[float] | None = None, model: str = ""
    ) -> Gap:
        """Record a reader's report that answers lacked something. A repetition within a minute is not counted.

        Raises `StoreUnavailableError`.
        """
        gap = self._new_gap(reader, wording_of(shown(question), vector, model))
        return self._gaps.add(replace(gap, missing=(shown(missing),), config=plain_config(QueryConfig())))

    def _new_gap(self, reader: Reader, wording: Wording, services: tuple[str, ...] = ()) -> Gap:
        scope, now = scope_of(reader.identity), iso_time(self._clock())
        named = services or self._owners.services_in(wording.text)
        return Gap(
            scope_key=scope,
            gap_id=gap_id(scope, wording, named),
            examples=(wording,),
            first_asked_at=now,
            last_asked_at=now,
            callers=(self._key.hash("caller", scope, reader.identity.principal)[:12],),
            named=named,
        )

    def _nearest(self, result: RetrievalResult | None, reader: Reader) -> Nearest:
        if result is None:
            return Nearest()
        document = self._document(result.document_id, reader) if result.document_id else None
        return Nearest(
            document_id=result.document_id,
            title=_whole(result.title[:MAX_TEXT]),
            category=result.category,
            author=_whole(document.author) if document else "",
            confidence=round(result.confidence, 4),
            services=document.services if document else (),
        )


def _words_of(answered: Answered) -> str:
    """The question as people read it: of a pasted alert its words."""
    understood = answered.answer.understood
    return str(understood["text"]) if understood.get("alert") else answered.query


def _kept_absent(answered: Answered) -> list[Absent]:
    """Absent identifiers of the answer, except those within a masked secret of the question."""
    text = _masked(answered.query)
    return [one for one in answered.answer.absent if one.name in text][:MAX_ABSENT]


def _gap_of_absent(gap: Gap, absent: Absent) -> Gap:
    kept = replace(absent, name=absent.name[:MAX_TEXT], nearest=_whole(absent.nearest[:MAX_TEXT]))
    return replace(gap, gap_id=absent_gap_id(gap.scope_key, kept.name), absent=kept)


def _best(answer: Answer) -> RetrievalResult | None:
    return answer.results[0] if answer.results else answer.best_rejected


def shown(query: str) -> str:
    """The stored form of a question: on one line, secrets masked, truncated."""
    return shortened(_masked(query), MAX_TEXT)


def _masked(query: str) -> str:
    return " ".join(_whole(mask(query)[0]).split())


def _whole(text: str) -> str:
    """The text without lone surrogates, which tables reject, and without zero bytes."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
