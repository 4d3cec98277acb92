"""Detects text that seems to be aimed at a language model instead of a person, so that it can be labelled.

The absence of a finding proves nothing: it is a label for readers and no protection by itself. The patterns are narrow on
purpose: operations documents instruct people all day to ignore, override and forget things. Each takes a bounded number
of steps a character.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from opx.domain.documents import RemarkKind
from opx.domain.record import replace
from opx.hygiene import invisible

FLAG = RemarkKind.SUSPECTED_INSTRUCTION.value
"""Flag of chunks and results with such text."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,20000}={0,2}")
_AT_MOST = 3
"""Reasons that are reported for one line."""

OVERRIDE = "asks to disregard earlier instructions"
MARKERS = "has the markers of a model's prompt"
TOOL_CALL = "looks like a tool call of a model"
ROLE = "gives a language model another role"
DISCLOSURE = "asks a language model for its prompt"
CONCEALMENT = "asks to hide something from the user"
ADDRESS = "addresses a language model"
ENCODED = "hides such text in base64"
UNREADABLE = "hides text in invisible characters"
REORDERED = "changes the direction of its text, so that it reads otherwise than it is"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A suspected instruction: its span in the text, and the reason in words for readers."""

    reason: str
    start: int
    end: int


def suspicions(text: str, hints: Iterable[str] | None = None) -> list[Suspicion]:
    """Passages of a line (or two) that seem to be aimed at a model. `hints`: those that the text may contain."""
    if text.isascii():
        return _readable(text, hints)[:_AT_MOST]
    found = _disguises(text)
    bare = invisible.blanked(text)
    inside = _readable(bare, hints)
    if bare != text:  # its offsets are not those of the text
        inside = [replace(each, start=0, end=len(text)) for each in inside]
    return (found + inside)[:_AT_MOST]


def _readable(text: str, hints: Iterable[str] | None) -> list[Suspicion]:
    lowered = text.lower()
    present = frozenset([hint for hint in (_all_hints() if hints is None else hints) if hint in lowered])
    found = []
    for form in _formats_with(present):
        match = form.pattern.search(text)
        if match:
            found.append(Suspicion(form.reason, match.start(), match.end()))
    if not present.isdisjoint(encoded_hints()):
        found.extend(_encoded(text))
    return found


@cache
def _all_hints() -> tuple[str, ...]:
    return tuple({*encoded_hints(), *(hint for form in instruction_formats() for hint in form.hints)})


@lru_cache(maxsize=1024)
def _formats_with(hints: frozenset[str]) -> tuple[InstructionFormat, ...]:
    """Formats that may match text with these hints, in their order."""
    return tuple(form for form in instruction_formats() if not hints.isdisjoint(form.hints))


def _disguises(text: str) -> list[Suspicion]:
    found = []
    hidden = invisible.hidden_text(text)
    if hidden:
        found.append(Suspicion(UNREADABLE, *hidden))
    turned = invisible.overridden(text)
    if turned:
        found.append(Suspicion(REORDERED, *turned))
    return found


def _encoded(text: str) -> list[Suspicion]:
    """Runs of base64 that decode to such text."""
    found = []
    for run in _BASE64.finditer(text):
        decoded = _decoded(run[0])
        if decoded and any(form.pattern.search(decoded) for form in instruction_formats()):
            found.append(Suspicion(ENCODED, run.start(), run.end()))
    return found


def _decoded(run: str) -> str:
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare[: len(bare) // 4 * 4], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


@dataclass(frozen=True, slots=True)
class InstructionFormat:
    """A pattern of instructions. `hints`: literals in lower case, one of which is in every text that the pattern matches."""

    reason: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_MARKS = r"[\s,*_\"'-]{1,8}"
_EARLIER = r"(?:previous|prior|above|earlier|preceding|existing|initial|original|system|developer|safety|your|my|past)"
_OVERRIDE = (
    r"(?i)\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|override|do not follow|don't follow|stop following)\b"
    rf"(?:{_MARKS}(?:all|any|every|each|the|of|these|those|such|and|or|other|about)){{0,5}}{_MARKS}{_EARLIER}"
    rf"(?:{_MARKS}(?:and|or|all|given|{_EARLIER})){{0,4}}"
    rf"{_MARKS}(?:instructions?|prompts?|directions|guidelines|guardrails|programming|training)\b"
)
_OVERRIDE_AFTER = (
    r"(?i)\b(?:ignore|disregard|forget)\s+(?:(?:all|any|every|the|of|these|those|everything)\s+){0,3}"
    r"(?:instructions?|prompts?|guidelines)\s+(?:above|before|given|you (?:were|have been|got)|so far|until now|prior)"
)
_ROLE = (
    r"(?i)\byou are now (?:in )?(?:an? )?(?:unrestricted|unfiltered|jailbroken|dan\b|developer mode|god mode|uncensored)"
    r"|\bfrom now on,? you (?:will act as|must act as|must obey|only obey)\b"
    r"|^\W{0,6}(?:your )?new (?:system prompt|instructions for (?:you|the (?:ai|assistant|model)))\s?:"
)
_DISCLOSURE = (
    r"(?i)\b(?:reveal|print|repeat|output|show|display|leak|send)\s+(?:me\s+)?(?:all\s+)?(?:of\s+)?your\s+"
    r"(?:(?:full|entire|initial|hidden|secret|system)\s+){1,3}(?:prompt|instructions)"
)
_CONCEALMENT = (
    r"(?i)\b(?:do not|don't|never|without)\s+(?:tell|inform|mention|reveal|alert|notify)(?:ing)?\s+(?:\w+\s+){0,3}?(?:to\s+)?"
    r"the\s+(?:user|human)\b[^.\n]{0,40}?\b(?:these instructions|this instruction|that you|what you (?:did|do|are doing))\b"
)
_ADDRESS = (
    r"(?i)\b(?:attention|note|notice|message|instructions?|important|reminder)\b[^\n.]{0,20}?\b(?:to|for)\s+"
    r"(?:(?:the|any|all|every|an?)\s+)?(?:ai|llm|language model|chatbot)s?(?:\s+(?:assistant|agent|model)s?)?"
    r"(?:\s+(?:reading|processing|summari[sz]ing|that reads?)\b|\s{0,2}[:!])"
    r"|\b(?:if you are|if you're|as) an? (?:ai|llm|(?:large )?language model|chatbot)\b[^.\n]{0,60}?\byou "
    r"(?:must|should|will|have to|need to|are (?:required|instructed))\b"
)
_ENGLISH: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (OVERRIDE, ("instru", "prompt", "directions", "guideline", "guardrail", "programming", "training"), _OVERRIDE),
    (OVERRIDE, ("instru", "prompt", "guideline"), _OVERRIDE_AFTER),
    (ROLE, ("you are now", "from now on", "prompt", "instru"), _ROLE),
    (DISCLOSURE, ("prompt", "instru"), _DISCLOSURE),
    (CONCEALMENT, ("the user", "the human"), _CONCEALMENT),
    (ADDRESS, ("language model", "llm", "chatbot", " ai"), _ADDRESS),
)
_MARKED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (MARKERS, ("<|",), (r"<\|(?:im_start|im_end|im_sep|system|user|assistant|endoftext|eot_id|begin_of_text|start_header_id|"
     r"end_header_id|endofprompt|channel|message)\|>")),
    (MARKERS, ("inst]", "sys>>", "_of_turn>"), r"\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"),
    (MARKERS, ("<system", "</system", "<assistant", "</assistant"),
     r"^\s*</?(?:system|assistant)(?:[_-](?:prompt|reminder|message|instructions?))?>"),
    (MARKERS, ("instru", "### response:", "### system:"), r"(?i)^### (?:instruction|response|system):[ \t]*$"),
    (TOOL_CALL, ("function_call", "<tool_", "<|python", "invoke name="),
     r"<(?:\w{1,8}:)?function_calls>|<(?:\w{1,8}:)?invoke name=|<tool_(?:call|use)>|<\|python_tag\|>"),
    (TOOL_CALL, ("tool_calls", "function_call"), r"\"(?:tool_calls|function_call)\"\s?:\s?(?:\[\s?\{|\{\s?\")"),
)  # fmt: skip
_OTHER_LANGUAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("anweisung", "instru", "vorgaben"), (r"(?i)\b(?:ignorier\w{0,4}|missachte\w{0,2}|vergiss|vergessen sie)\b.{0,40}?\b"
     r"(?:vorherig|bisherig|obig|früher|vorangegangen|vorig)\w{0,2}\s+(?:system\w{0,10}\s+)?(?:anweisung|instruktion|vorgaben)")),
    (("instru", "consignes"), (r"(?i)\b(?:ignore[zr]?|oublie[zr]?)\b.{0,30}?\b(?:instructions|consignes)\b.{0,15}?"
     r"(?:précédent|antérieur|ci-dessus|du système)")),
    (("instru", "indicaciones"), (r"(?i)\b(?:ignor[ae]\w{0,3}|olvid[ae]\w{0,3}|haz caso omiso)\b.{0,30}?\b"
     r"(?:instrucciones|indicaciones)\b.{0,15}?\b(?:anterior|previas|de arriba|del sistema)")),
    (("instru",), (r"(?i)\b(?:ignor[ae]\w{0,3}|esqueça|desconsidere)\b.{0,30}?\binstruções\b.{0,15}?"
     r"(?:anterior|prévias|acima|do sistema)")),
    (("istruzioni",), (r"(?i)\b(?:ignora\w{0,3}|dimentica\w{0,3})\b.{0,30}?\bistruzioni\b.{0,15}?\b"
     r"(?:precedent|sopra|di sistema)")),
    (("instru",), r"(?i)\b(?:negeer|vergeet)\b.{0,30}?\b(?:vorige|bovenstaande|eerdere)\s+instructies"),
    (("инструкц", "указани"), r"(?i)(?:игнорируй|забудь)\w{0,4}.{0,30}?(?:предыдущ|прежн)\w{1,4}\s+(?:инструкц|указани)"),
    (("指令", "指示", "提示"), r"(?:忽略|无视|忘记).{0,10}?(?:之前|以上|上述|先前|前面).{0,6}?(?:指令|指示|提示)"),
    (("指示", "命令", "プロンプト"), r"(?:以前|これまで|上記).{0,4}?の?(?:指示|命令|プロンプト).{0,6}?(?:無視|忘れ)"),
)  # fmt: skip
_ENCODED_WORDS = ("instruction", "previous", "disregard", "system prompt")


@cache
def instruction_formats() -> tuple[InstructionFormat, ...]:
    """All formats but the encoded ones."""
    rows = (*_ENGLISH, *_MARKED, *((OVERRIDE, hints, pattern) for hints, pattern in _OTHER_LANGUAGES))
    return tuple(InstructionFormat(reason, hints, re.compile(pattern)) for reason, hints, pattern in rows)


@cache
def encoded_hints() -> tuple[str, ...]:
    """Base64 forms of the words that mark such text, at each of the three alignments; in lower case."""
    return tuple(dict.fromkeys(_in_base64(word, at).lower() for word in _ENCODED_WORDS for at in range(3)))


def _in_base64(word: str, at: int) -> str:
    """The base64 characters that depend only on the word."""
    data = b"\0" * at + word.encode()
    return base64.b64encode(data).decode()[(at * 8 + 5) // 6 : len(data) * 8 // 6]
