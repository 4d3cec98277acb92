"""The operations on what work taught, and on what came of acting upon documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opx.api.calls import Call
from opx.api.fields import Json
from opx.api.pages import taken
from opx.domain.learning import CheckpointType, Pattern, StagingEntry
from opx.domain.record import replace
from opx.learning.asked import FailureQuestion, TaskQuestion

if TYPE_CHECKING:
    from opx.local_knowledge_base import LocalKnowledgeBase


class LearningReading:
    """A method a route of `learning_routes` that reads."""

    _base: LocalKnowledgeBase

    def learning_entries(self, call: Call) -> Json:
        asked = call.query
        found = self._base.learning_entries(
            state=asked.get("state", ""),
            project_id=asked.get("projectId", ""),
            limit=asked["limit"],
            after=asked.get("after", ""),
        )
        shown, cut = taken(found, StagingEntry.to_json, len(found))
        more = cut or len(found) == asked["limit"]
        return {"entries": shown, **({"next": shown[-1]["id"]} if more else {})}

    def patterns(self, call: Call) -> Json:
        found = self._base.patterns(limit=call.query["limit"])
        shown, _ = taken(found, Pattern.to_json, len(found))
        return {"patterns": shown}

    def pattern(self, call: Call) -> Json:
        return self._base.pattern(call.path["patternId"]).to_json()

    def patterns_for_task(self, call: Call) -> Json:
        asked = call.body
        found = self._base.patterns_for_task(replace(_task(asked), max_results=asked["maxResults"]))
        return {"patterns": [pattern.to_json() for pattern in found]}

    def patterns_for_failure(self, call: Call) -> Json:
        asked = call.body
        found = self._base.patterns_for_failure(
            FailureQuestion(
                asked["failureDescription"],
                asked.get("errorMessage", ""),
                asked.get("agentType", ""),
                asked.get("taskType", ""),
            )
        )
        return {"patterns": [pattern.to_json() for pattern in found]}

    def task_context(self, call: Call) -> Json:
        return {"context": self._base.task_context(_task(call.body))}

    def document_outcomes(self, call: Call) -> Json:
        found = self._base.document_outcomes(call.path["documentId"])
        return found.to_json()


class LearningWriting:
    """A method a route of `learning_routes` that writes, to the caller's own scope alone."""

    _base: LocalKnowledgeBase

    def capture_entry(self, call: Call) -> Json:
        return {"id": self._base.capture_entry(call.body)}

    def verify_entry(self, call: Call) -> Json:
        given = {name: call.body[name] for name in ("effect", "incident") if name in call.body}
        return self._base.verify_entry(call.path["entryId"], worked=call.body["worked"], **given).to_json()

    def checkpoint(self, call: Call) -> Json:
        kind = CheckpointType(call.body["checkpointType"])
        report = self._base.checkpoint(call.body.get("projectId", ""), kind)
        return {"asked": report is None, **({"report": report.to_json()} if report else {})}

    def record_outcome(self, call: Call) -> Json:
        return self._base.record_outcome(**{_snake(name): value for name, value in call.body.items()}).to_json()


def _task(asked: Json) -> TaskQuestion:
    about = (asked.get(name, "") for name in ("agentType", "taskType", "technology"))
    return TaskQuestion(asked["taskDescription"], *about)


def _snake(name: str) -> str:
    return {"receiptId": "receipt_id", "documentId": "document_id"}.get(name, name)
