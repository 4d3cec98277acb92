"""A language model for doubles of services: it reads the frame of the data strictly, and judges by shared words.

It follows no instructions. It records the system's instructions and the data separately, so that tests can check both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.bedrock_knowledge_base import relevance

_FRAME = re.compile(
    r"\[untrusted content (?P<mark>[0-9a-f]{16}) begins\]\n(?P<lines>.*)\n\[untrusted content (?P=mark) ends\]\Z",
    re.DOTALL,
)
Thought = Callable[[str, str], object]
"""An answer to instructions and data."""


@dataclass(frozen=True)
class ModelRequest:
    """A request to the model: the system's instructions, and the data without its frame."""

    system: str
    data: str
    schema: Mapping[str, Any]
    max_tokens: int


@dataclass
class LanguageModel:
    """`thought` answers instead of the model; a string is sent as it is, anything else as JSON. `mistakes` lists messages
    that were not framed correctly: tests check it, as an assertion in a server would be lost."""

    thought: Thought | None = None
    requests: list[ModelRequest] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    def answer(self, system: str, user: str, schema: Mapping[str, Any], max_tokens: int) -> object:
        try:
            data = unframed(user, system)
        except AssertionError as exc:
            self.mistakes.append(str(exc))
            return {}
        self.requests.append(ModelRequest(system, data, schema, max_tokens))
        return self.thought(system, data) if self.thought else judged(system, data)

    def reset(self) -> None:
        self.thought = None
        self.requests.clear()


def unframed(user: str, system: str) -> str:
    """The data of a message, which must be in one whole frame that the system's text knows of."""
    frame = _FRAME.match(user)
    assert frame, f"no frame around {user[:200]!r}"
    assert frame["mark"] in system, "the frame's number is not in the instructions"
    lines = frame["lines"].split("\n")
    assert all(line.startswith("> ") for line in lines), "a line of the data looks like one of ours"
    return "\n".join(line.removeprefix("> ") for line in lines)


def judged(_system: str, data: str) -> object:
    """Verdicts on documents by the words they share with the question; contexts that name the document."""
    found = json.loads(data)
    if "question" in found:
        return {"verdicts": [verdict(found["question"], document) for document in found["documents"]]}
    texts = [f"From {found['title']}, about {' '.join(each['text'].split()[:3])}." for each in found["passages"]]
    ids = [each["id"] for each in found["passages"]]
    return {"contexts": [{"id": at, "context": text} for at, text in zip(ids, texts, strict=True)]}


def verdict(question: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """By its best line, which must have its number."""
    texts = [document["title"]]
    for number, line in enumerate(document["lines"], start=1):
        assert line.startswith(f"{number}: "), f"line {number} has another number"
        texts.append(line.partition(": ")[2])
    shares = [relevance(question, text) for text in texts]
    best = max(shares)
    found = "answers" if best >= 0.6 else "helps" if best >= 0.25 else "no"
    line = shares.index(max(shares[1:]), 1) if found != "no" and len(shares) > 1 else 0
    return {"id": document["id"], "verdict": found, "line": line}


def tokens_of(text: str) -> int:
    return len(text.split())
