"""What work taught, of a deployed system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from opx.adapters.remote.http import ApiClient
from opx.errors import DocumentNotFoundError, EntryNotFoundError, OpxError, PatternNotFoundError, ReceiptNotFoundError

if TYPE_CHECKING:
    from opx.domain.learning import CheckpointReport, CheckpointType, Pattern, PatternView, RAGPattern, StagingEntry
    from opx.domain.outcomes import DocumentOutcomes, OutcomeReport
    from opx.learning.asked import FailureQuestion, TaskQuestion

T = TypeVar("T")


class RemoteLearning:
    """The part of a remote knowledge base that is about what work taught, and what came of acting upon documents."""

    _api: ApiClient

    if TYPE_CHECKING:

        def _read(self, read: Callable[[Any], T], data: Any) -> T: ...

    def capture_entry(self, given: Mapping[str, Any]) -> str:
        found = self._api.call("POST", "learning", "entries", body=dict(given))
        return self._read(lambda data: str(data["id"]), found)

    def verify_entry(self, entry_id: str, *, worked: bool, effect: str = "", incident: str = "") -> StagingEntry:
        from opx.domain.learning import StagingEntry

        body = {"worked": worked, **_given(effect=effect, incident=incident)}
        with _called(EntryNotFoundError):
            found = self._api.call("POST", "learning", "entries", entry_id, "verification", body=body)
        return self._read(StagingEntry.from_json, found)

    def learning_entries(
        self, *, state: str = "", project_id: str = "", limit: int = 50, after: str = ""
    ) -> Sequence[StagingEntry]:
        """A reply has as many as fit into it: there may be more although they are fewer than `limit`."""
        from opx.domain.learning import StagingEntry

        found: list[StagingEntry] = []
        while len(found) < limit:
            last = found[-1].id if found else after
            query = {"limit": limit - len(found), **_given(state=state, projectId=project_id, after=last)}
            with _called(EntryNotFoundError):
                reply = self._api.call("GET", "learning", "entries", query=query)
            found += self._read(lambda data: list(map(StagingEntry.from_json, data["entries"])), reply)
            if "next" not in reply:
                break
        return found

    def checkpoint(self, project_id: str, checkpoint_type: CheckpointType) -> CheckpointReport | None:
        from opx.domain.learning import CheckpointReport

        body = {"checkpointType": checkpoint_type.value, **_given(projectId=project_id)}
        found = self._api.call("POST", "learning", "checkpoints", body=body)
        return self._read(lambda data: CheckpointReport.from_json(data["report"]) if "report" in data else None, found)

    def patterns(self, *, limit: int = 100) -> Sequence[Pattern]:
        from opx.domain.learning import Pattern

        found = self._api.call("GET", "learning", "patterns", query={"limit": limit})
        return self._read(lambda data: list(map(Pattern.from_json, data["patterns"])), found)

    def pattern(self, pattern_id: str) -> PatternView:
        from opx.domain.learning import PatternView

        with _called(PatternNotFoundError):
            found = self._api.call("GET", "learning", "patterns", pattern_id)
        return self._read(PatternView.from_json, found)

    def patterns_for_task(self, question: TaskQuestion) -> Sequence[RAGPattern]:
        return self._patterns("task", question.to_json())

    def patterns_for_failure(self, question: FailureQuestion) -> Sequence[RAGPattern]:
        return self._patterns("failure", question.to_json())

    def _patterns(self, what: str, body: dict[str, Any]) -> Sequence[RAGPattern]:
        from opx.domain.learning import RAGPattern

        found = self._api.call("POST", "learning", "patterns", what, body=body)
        return self._read(lambda data: list(map(RAGPattern.from_json, data["patterns"])), found)

    def task_context(self, question: TaskQuestion) -> str:
        body = question.to_json()
        del body["maxResults"]
        found = self._api.call("POST", "learning", "context", body=body)
        return self._read(lambda data: str(data["context"]), found)

    # -- outcomes

    def record_outcome(self, receipt_id: str, document_id: str, result: str, **more: str) -> OutcomeReport:
        from opx.domain.outcomes import OutcomeReport

        body = {"receiptId": receipt_id, "documentId": document_id, "result": result, **_given(**more)}
        with _called(ReceiptNotFoundError):
            found = self._api.call("POST", "outcomes", body=body)
        return self._read(OutcomeReport.from_json, found)

    def document_outcomes(self, document_id: str) -> DocumentOutcomes:
        from opx.domain.outcomes import DocumentOutcomes

        return self._read(DocumentOutcomes.from_json, self._api.call("GET", "documents", document_id, "outcomes"))


@contextmanager
def _called(error: type[OpxError]) -> Iterator[None]:
    """The API has one code for whatever isn't there."""
    try:
        yield
    except DocumentNotFoundError as exc:
        raise error(str(exc)) from None


def _given(**fields: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
