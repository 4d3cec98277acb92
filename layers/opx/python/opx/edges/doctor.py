"""Examines a system by using it: stores documents of two clients, finds them through each interface, and deletes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

from opx.domain.policy import ADMIN_SCOPE
from opx.domain.record import Json, Record
from opx.domain.results import Answer
from opx.domain.scopes import SELF_TEST_CLIENTS, Identity, Scope
from opx.edges import tools
from opx.edges.calling import OperationClient, decoded
from opx.edges.client import error_of
from opx.errors import NotApplicableError, OpxError, UnwritableStoreError
from opx.ingestion.indexing.measuring import EmbeddingSpeed
from opx.ingestion.states import ObjectPhase, ObjectState
from opx.operations.corpus import ObjectStatesFound, get_object_states
from opx.operations.registry import DEFAULT_KNOWLEDGE_BASE, KNOWLEDGE, REGISTRY, Function
from opx.operations.search import Search, query, search
from opx.retrieval.waking import WAKE

CATEGORY = "runbooks/procedures"
TOOL = "search_runbooks"
AGENT = "opx-doctor"
MEANING = "How do I tighten a conveyor belt that slips because it is loose?"
DOCUMENT = """\
---
title: Self-test {word}
tags: [{word}]
expires: {day}
---
# Self-test {word}

The document {word} was written by a self-test, which deletes it at its end. When the conveyor belt slips, it is too
loose: tighten the screw at the tail pulley until the belt sags by two fingers.
"""

WAIT_SECONDS = 300.0
PAUSE_SECONDS = 2.0
WRITABLE = "make room on the disk of the home, or make it writable"
"""The next step after a failure of a disk that can only be read."""

_SHOWN = 300


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class CheckResult(Record, frozen=True):
    """The result of a check. `detail`: its figures, the cause of a failure, or the reason why it was skipped; `remedy`: the
    action after a failure."""

    check: str
    outcome: Outcome
    detail: str
    remedy: str = ""
    seconds: float = 0.0


class CheckFailedError(OpxError):
    """A check that failed. The message says how."""


class ExaminedSystem(Protocol):
    """An installed system, with the rights of its operator. Methods raise `OpxError`, and `NotApplicableError` where the
    system has nothing of the kind."""

    @property
    def title(self) -> str: ...

    @property
    def identity(self) -> Identity:
        """The identity of callers that state none."""

    def invoke(self, function: Function, event: Mapping[str, Any]) -> Json:
        """The answer of a function to an event."""

    def put(self, object_key: str, text: str) -> None:
        """Stores an object in the corpus, as an upload does."""

    def delete(self, object_key: str) -> None:
        """Deletes an object of the corpus."""

    def measure(self) -> EmbeddingSpeed:
        """Measures the embedding model."""

    def api(self) -> OperationClient:
        """A client of the HTTP API."""

    def ask_gateway(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The text of a tool's answer through the agents' gateway."""

    def ask_as_token_holder(self, identity: Identity, tool: str, arguments: Mapping[str, Any]) -> str:
        """The text of a tool's answer to the holder of a token of this identity."""

    def fire_alarm(self) -> str:
        """Sets an alarm off and back; returns a description of what followed."""

    @property
    def remedies(self) -> Mapping[str, str]:
        """The next steps after failed checks that aren't those of a deployed system."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """A document of the examination. `word` is in no other document."""

    identity: Identity
    word: str

    @property
    def key(self) -> str:
        scope = Scope(self.identity.client_id, project_id=self.identity.project_id)
        return f"{scope.prefix}documents/{CATEGORY}/{self.word}.md"

    @property
    def text(self) -> str:
        """It expires, so that its history is pruned after a day or two."""
        return DOCUMENT.format(word=self.word, day=(datetime.now(UTC) + timedelta(days=1)).date())


class Examination:
    """One examination of a system. `token` is part of its documents' names: several may run at the same time."""

    def __init__(
        self,
        system: ExaminedSystem,
        token: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._system = system
        self._clock = clock
        self._sleep = sleep
        names = [*SELF_TEST_CLIENTS, ""]
        self._samples = [
            _Sample(Identity(name) if name else system.identity, f"selftest{letter}{token}")
            for name, letter in zip(names, "abo", strict=True)
        ]

    @property
    def _tenants(self) -> list[_Sample]:
        return self._samples[:2]

    @property
    def _own(self) -> _Sample:
        """The document of callers that state no identity."""
        return self._samples[2]

    def run(self, without: frozenset[str] = frozenset()) -> Generator[CheckResult, None, None]:
        """The results, one by one. What was stored is deleted also if the caller stops early."""
        searches: Mapping[str, Callable[[], str]] = {
            "words": self._by_words,
            "meaning": self._by_meaning,
            "action group": self._through_action_group,
            "gateway": self._through_gateway,
            "tokens": self._with_tokens,
            "HTTP API": self._through_api,
        }
        try:
            yield self._made("index", self._wake)
            yield self._made("embedding", self._measure)
            ingested = self._made("ingestion", self._ingest)
            yield ingested
            for name, check in searches.items():
                if ingested.outcome is Outcome.OK:
                    yield self._made(name, check)
                else:
                    yield CheckResult(name, Outcome.SKIPPED, "there is no document to find")
            if "alarm" in without:
                yield CheckResult("alarm", Outcome.SKIPPED, "left out")
            else:
                yield self._made("alarm", self._system.fire_alarm)
        finally:
            removed = self._made("deletion", self._remove)
        yield removed

    def _made(self, name: str, check: Callable[[], str]) -> CheckResult:
        started = self._clock()
        remedies, remedy = {**REMEDIES, **self._system.remedies}, ""
        try:
            outcome, detail = Outcome.OK, check()
        except NotApplicableError as exc:
            outcome, detail = Outcome.SKIPPED, str(exc)
        except UnwritableStoreError as exc:  # what is stored is sound
            outcome, detail, remedy = Outcome.FAILED, str(exc), WRITABLE
        except OpxError as exc:
            outcome, detail, remedy = Outcome.FAILED, str(exc), remedies[name]
        except Exception as exc:  # noqa: BLE001 - a failure of any kind is what is looked for
            outcome, detail, remedy = Outcome.FAILED, f"unexpected {type(exc).__name__}: {exc}", remedies[name]
        return CheckResult(name, outcome, detail, remedy, round(self._clock() - started, 1))

    # -- the parts

    def _wake(self) -> str:
        answer = self._system.invoke(Function.RETRIEVE, WAKE)
        return f"answers after {answer['seconds']:.1f} s"

    def _measure(self) -> str:
        speed = self._system.measure()
        if speed.throttled:
            raise CheckFailedError(f"{speed.model} throttled {speed.throttled} of {speed.texts} calls")
        quota = f", quota {speed.quota:,}" if speed.quota else ""
        rate = 60 * speed.texts / max(speed.seconds, 0.001)
        waited = f", {speed.waited:.1f} s of that for the speed limit" if speed.waited >= 0.1 else ""
        return f"{speed.model}: {speed.texts} texts in {speed.seconds:.2f} s ({rate:,.0f} a minute{quota}{waited})"

    # -- documents

    def _ingest(self) -> str:
        started = self._clock()
        for sample in self._samples:
            self._system.put(sample.key, sample.text)
        for sample in self._samples:
            self._await(sample, ObjectPhase.INGESTED)
        ingested = self._clock() - started
        for sample in self._tenants:
            while not _has(self._search(sample, sample.word), sample):
                self._pause(started, f"{sample.key} is ingested, and not found by its name")
        found = self._clock() - started
        return f"{len(self._samples)} documents ingested in {ingested:.1f} s, found after {found:.1f} s"

    def _await(self, sample: _Sample, phase: ObjectPhase) -> bool:
        """False where the system can't report states. Raises `CheckFailedError`."""
        started = self._clock()
        while (found := self._state(sample)) is not None and found.state is not phase:
            if found.state is ObjectPhase.FAILED:
                raise CheckFailedError(f"{sample.key} failed: {found.reason}")
            self._pause(started, f"{sample.key} is {found.state.value}, and not {phase.value}")
        return found is not None

    def _pause(self, started: float, problem: str) -> None:
        """Waits for the next look. Raises `CheckFailedError` when the time is up."""
        waited = self._clock() - started
        if waited > WAIT_SECONDS:
            raise CheckFailedError(f"{problem} after {waited:.0f} s")
        self._sleep(PAUSE_SECONDS)

    def _state(self, sample: _Sample) -> ObjectState | None:
        """None without the function that reports states, as in environments without an HTTP API."""
        event = _http_event(get_object_states, sample.identity, body={"objectKeys": [sample.key]})
        try:
            found: ObjectStatesFound = _decoded(self._system.invoke(Function.MANAGE, event), ObjectStatesFound)
        except NotApplicableError:
            return None
        return found.states[0]

    def _remove(self) -> str:
        for sample in self._samples:
            self._system.delete(sample.key)
        seen = [self._await(sample, ObjectPhase.DELETED) for sample in self._samples]
        done = (
            "deleted"
            if all(seen)
            else "deleted in the bucket (without an HTTP API it isn't seen when the index follows)"
        )
        return f"{len(seen)} documents {done}; their history expires in a day, the questions stay in the audit log"

    # -- searches

    def _search(self, sample: _Sample, question: str) -> Answer:
        return self._answer(_http_event(search, sample.identity, parameters={"q": question}))

    def _answer(self, event: Mapping[str, Any]) -> Answer:
        found: Answer = _decoded(self._system.invoke(Function.RETRIEVE, event), Answer)
        if found.partial:
            raise CheckFailedError(f"the answer is incomplete: {'; '.join(found.notes)}")
        return found

    def _by_words(self) -> str:
        for sample in self._tenants:
            self._check(sample, _text_of(self._search(sample, f"conveyor belt {sample.word}")))
        return "each client finds its document, and not the other's"

    def _by_meaning(self) -> str:
        for sample in self._tenants:
            config = {"categories": [CATEGORY], "tags": [sample.word], "minConfidence": 0.0}
            answer = self._answer(_http_event(query, sample.identity, body={"query": MEANING, "config": config}))
            self._check(sample, _text_of(answer))
            ranks = [hit.parts.vector_rank for hit in _hits(answer) if hit.parts is not None]
            if not any(ranks):
                raise CheckFailedError(f"{sample.key} is found by its words, and not by its meaning within a filter")
        return "each client finds its document by the question's vector, within a category and a tag"

    def _through_action_group(self) -> str:
        for sample in self._tenants:
            event = _function_event(sample.identity, TOOL, {"query": f"conveyor belt {sample.word}"})
            answer = self._system.invoke(Function.RETRIEVE, event)["response"]["functionResponse"]
            text = str(answer["responseBody"]["TEXT"]["body"])
            if "responseState" in answer:
                raise CheckFailedError(f"{TOOL} answered {answer['responseState']}: {text[:_SHOWN]}")
            self._check(sample, text)
        return f"{TOOL} finds each client's document for its sessions, and not the other's"

    def _through_gateway(self) -> str:
        self._check(self._own, self._system.ask_gateway(TOOL, {"query": f"conveyor belt {self._own.word}"}))
        return f"{TOOL} finds {_whose(self._own)}, and no other client's"

    def _with_tokens(self) -> str:
        for sample in self._tenants:
            arguments = {"query": f"conveyor belt {sample.word}"}
            self._check(sample, self._system.ask_as_token_holder(sample.identity, TOOL, arguments))
        return "the gateway's interceptor and the function keep clients apart by their tokens"

    def _through_api(self) -> str:
        client = self._system.api()
        answer = client.call(search, Search(q=f"conveyor belt {self._own.word}"))
        self._check(self._own, _text_of(answer))
        return f"a search finds {_whose(self._own)}, and no other client's"

    def _check(self, sample: _Sample, text: str) -> None:
        """Raises `CheckFailedError` unless an answer has the reader's document and no other client's."""
        for other in self._tenants:
            if other is not sample and other.word in text:
                raise CheckFailedError(f"{_whose(sample)} came with a document of client {other.identity.client_id}")
        if sample.word not in text:
            raise CheckFailedError(f"{sample.key} was not found; the answer was: {text[:_SHOWN] or 'empty'}")


REMEDIES: Mapping[str, str] = {
    "index": "see the log of retrieve-knowledge, the collection's state and policies, and the account's OCU limit",
    "embedding": "see the model's access in the Bedrock console, and its quota in Service Quotas (docs/deploy.md, Speed of "
    "ingestion)",
    "ingestion": "see `opx failed`, the log of ingest-documents, and the queues ingest and ingest-failed (docs/deploy.md, "
    "Dead letters)",
    "words": "if it is a document of another client: stop the system, and report it. Else see the log of retrieve-knowledge",
    "meaning": "see the mapping of the index: a classic collection needs an engine that filters; `opx reindex` builds one",
    "action group": "see the log of retrieve-knowledge, and the section agents of knowledge.yaml, which grants the tool",
    "gateway": "see the gateway and its targets in the AgentCore console, and the right bedrock-agentcore:InvokeGateway",
    "tokens": "if it is a document of another client: stop the system, and report it. Else see the logs of identify-callers "
    "and retrieve-knowledge, and the secret that both read",
    "HTTP API": "see the access log of the API, and the right execute-api:Invoke (docs/deploy.md, The HTTP API)",
    "alarm": "see the actions of the alarm, the policy of its topic, and the topic's key",
    "deletion": "delete them with `opx delete`, or in the bucket; see `opx failed`",
}
"""The next step after a failed check of a deployed system."""


# -- events, as API Gateway and Bedrock send them


def _http_event(
    run: Callable[..., Any],
    identity: Identity,
    *,
    parameters: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The request of an operation, with the claims that an authorizer verified for this identity."""
    route = REGISTRY.of(run).route
    assert route is not None, "operations of the examination have routes"
    claims = {"sub": AGENT, "scope": ADMIN_SCOPE, "opx_client_id": identity.client_id}
    if identity.project_id:
        claims["opx_project_id"] = identity.project_id
    return {
        "version": "2.0",
        "routeKey": route.key,
        "rawQueryString": urlencode(parameters or {}),
        "pathParameters": dict.fromkeys(route.path_names, DEFAULT_KNOWLEDGE_BASE),
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": route.method}, "authorizer": {"jwt": {"claims": claims}}},
        "body": msgspec.json.encode(body).decode() if body is not None else "",
        "isBase64Encoded": False,
    }


def _decoded(reply: Mapping[str, Any], kind: Any) -> Any:
    """The record in an HTTP reply. Raises the error that it reports."""
    status, body = int(reply["statusCode"]), str(reply["body"]).encode()
    if status >= 300:
        raise error_of(status, body, reply.get("headers", {}), "invoke", "https://function")
    return decoded(body, kind)


def _function_event(identity: Identity, tool: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Bedrock's event for an action group, with the session attributes that an application sets."""
    return {
        "messageVersion": "1.0",
        "agent": {"name": AGENT},
        "sessionId": AGENT,
        "actionGroup": KNOWLEDGE.name,
        "function": tool,
        "parameters": [{"name": name, "type": "string", "value": value} for name, value in arguments.items()],
        "sessionAttributes": {tools.CLIENT_ATTRIBUTE: identity.client_id},
    }


def _hits(answer: Answer) -> tuple[Any, ...]:
    return answer.results + answer.unconfirmed


def _text_of(answer: Answer) -> str:
    """All text of an answer but the question, which names the word, too."""
    return "\n".join(f"{hit.title} {hit.source} {hit.content}" for hit in _hits(answer))


def _has(answer: Answer, sample: _Sample) -> bool:
    return sample.word in _text_of(answer)


def _whose(sample: _Sample) -> str:
    client = sample.identity.client_id
    return f"the document of client {client}" if client else "the global document"
