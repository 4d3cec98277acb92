"""Statements of a document that another one could contradict: values of parameters, commands that change something, and
instructions with their prohibitions.

A statement is kept as words, so that two wordings of one statement have nearly the same. What depends on a condition has
the words of its condition, too. Left out is what only looks like a statement: examples, history, estimates, questions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from opx.domain.procedures import Outline, Section, SectionKind, Unit
from opx.text.procedures.phrases import plain, sentences
from opx.text.procedures.phrases import words as word_set
from opx.text.procedures.shell import ShellError, Simple, split
from opx_quality.contradicting.values import Value, values_in

MAX_STATEMENTS = 200
"""Statements of a document that are compared."""
MAX_SENTENCE = 400
"""Longer sentences are compared with none: what their values are of can't be known."""
MAX_WORDS = 24


class StatementKind(StrEnum):
    """VALUE: a parameter has a value. COMMAND: a command with its options. INSTRUCTION: something is to be done, or not."""

    VALUE = "value"
    COMMAND = "command"
    INSTRUCTION = "instruction"


class Statement(Struct, frozen=True):
    """`words` are those that matter, without values; `values` pairs of a dimension and a value. For a command, dimensions
    are its options; `subject` is then its program with its subcommand. `section` is the index of its section, `headings` its
    words, `start` and `end` are those of the block it is in."""

    kind: StatementKind
    words: frozenset[str]
    values: frozenset[tuple[str, str]]
    text: str
    subject: str = ""
    section: int = 0
    headings: frozenset[str] = frozenset()
    start: int = 0
    end: int = 0


IsHarmless = Callable[[str, str], bool]
"""True for a command, given with its language, that only reads."""


def statements_of(outline: Outline, is_harmless: IsHarmless) -> list[Statement]:
    """The statements of a document, the commands of its steps first, at most `MAX_STATEMENTS`."""
    found = [*_commands(outline, is_harmless), *_sentences(outline)]
    return list({(one.kind, one.words, one.values, one.subject): one for one in found}.values())[:MAX_STATEMENTS]


# -- sentences


_FENCE = re.compile(r"^[ \t>]*(```|~~~).*?(?:^[ \t>]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,2}[.)])\s+")
_NO_STATEMENT = re.compile(
    r"""
      \?\s*\Z
    | \b(?:e\.g\.|for\ example|for\ instance|such\ as|examples?|sample|say,)
    | \b(?:was|were|had|been|used\ to|previously|formerly|earlier|originally|historically|before\ the\ incident|ago|since)\b
    | \b(?:about|around|approximately|roughly|usually|typically|normally|often|sometimes|might|may|some|estimated?)\b
    | [~≈]\s?\d
    | \b(?:lasted|took|occurred|happened|reached|caused|dropped|grew|rose|fell)\b
    | \bfrom\b[^.]*\bto\b | \bbetween\ \d | \d\s?(?:-|–|to|or)\s?\d
    | \b(?:incident|inc-\d|ticket|yesterday|today|last\ (?:week|month|year)|in\ (?:19|20)\d\d)
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Examples, history, estimates, ranges and questions state no parameter."""
_CONDITIONAL = re.compile(
    r"\b(?:if|when|whenever|unless|until|once|while|during|after|before|in case|except|otherwise|only)\b", re.IGNORECASE
)
_CLAUSE = re.compile(r"[;:](?=\s)|,(?=\s)|\s(?:and|then|but|so that|because|which)\s|\s[–—-]\s|\.\s", re.IGNORECASE)
_MOST_CLAUSES = 12


def _sentences(outline: Outline) -> Iterator[Statement]:
    headings = list(map(_heading_words, outline.sections))
    for unit in outline.units:
        text = _FENCE.sub("", outline.slice(unit))
        for sentence in _lines(text):
            yield from _stated(sentence, unit, headings)


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n\n"):
        if line.lstrip().startswith("|"):
            yield from (" ".join(row.strip().strip("|").split("|")) for row in line.split("\n") if "---" not in row)
            continue
        for sentence in sentences(_ITEM.sub("", line)):
            yield plain(sentence).strip()


def _stated(sentence: str, unit: Unit, headings: Sequence[frozenset[str]]) -> Iterator[Statement]:
    if not 4 < len(sentence) <= MAX_SENTENCE or _NO_STATEMENT.search(sentence):
        return
    whole = bool(_CONDITIONAL.search(sentence))
    parts = [sentence] if whole else _clauses(sentence)
    for part in parts:
        if one := _value_of(part):
            yield _placed(one, unit, headings)
    if one := _instruction(sentence):
        yield _placed(one, unit, headings)


def _heading_words(section: Section) -> frozenset[str]:
    """The words of headings that distinguish cases: `Steps` and `Mitigation` don't, but `Rollback` does."""
    if section.kind is SectionKind.OTHER:
        return _words(" ".join(section.path))
    return frozenset(("rollback",)) if section.kind is SectionKind.ROLLBACK else frozenset()


def _clauses(sentence: str) -> list[str]:
    """The clauses of a sentence. A name before a colon belongs to its value: `Port: 8443`."""
    label, colon, rest = sentence.partition(": ")
    if colon and len(label) < 60 and not _CLAUSE.search(label):
        parts = _CLAUSE.split(rest)[:_MOST_CLAUSES]
        return [f"{label}: {parts[0]}", *parts[1:]]
    return _CLAUSE.split(sentence)[:_MOST_CLAUSES]


def _placed(one: Statement, unit: Unit, headings: Sequence[frozenset[str]]) -> Statement:
    return Statement(
        one.kind,
        one.words,
        one.values,
        one.text,
        one.subject,
        unit.section,
        headings[unit.section],
        unit.start,
        unit.end,
    )


def _value_of(clause: str) -> Statement | None:
    """The values of a clause, and its other words."""
    values = list(values_in(clause))
    if not 0 < len(values) <= 3:
        return None
    words = _words(_without(clause, values))
    if not words or len(words) > MAX_WORDS:
        return None
    return Statement(
        StatementKind.VALUE, words, frozenset((one.dimension, one.amount) for one in values), " ".join(clause.split())
    )


def _without(text: str, values: Sequence[Value]) -> str:
    kept, at = [], 0
    for one in sorted(values, key=lambda value: value.start):
        kept.append(text[at : one.start])
        at = max(at, one.end)
    return " ".join((*kept, text[at:]))


# -- words


_WORD = re.compile(r"[<>]=?|[A-Za-z_][\w]*(?:[-./:@][\w]+)*")
_STOP = word_set(
    """
    a an the of to in on at by for from with into as is are be been being it its this that these those there their our your we
    you they he she and or so than too also all any each per via will would shall should must can could has have had do does
    did set sets setting use uses used using configure configured default defaults value values equal equals keep change
    changed increase increased raise raised lower lowered reduce reduced decrease make makes let give given please always
    parameter option currently now then its it's here listens listen runs run put ensure needs need needed require requires
    required expect expected s
    """
)
_COMPARED = {
    "exceeds": ">", "above": ">", "over": ">", "greater": ">", "more": ">", "higher": ">", "longer": ">", ">=": ">",
    "below": "<", "under": "<", "less": "<", "fewer": "<", "lower": "<", "<=": "<", "least": ">", "most": "<",
    "minimum": "min", "maximum": "max", "waits": "wait",
}  # fmt: skip


def _words(text: str) -> frozenset[str]:
    """The words that matter, in one form each."""
    found = (_COMPARED.get(word, word) for word in map(str.lower, _WORD.findall(text)) if word not in _STOP)
    return frozenset(_singular(word) for word in found)


def _singular(word: str) -> str:
    if len(word) > 3 and word.endswith("s") and word.isalpha() and not word.endswith(("ss", "us", "is")):
        return word[:-3] + "y" if word.endswith("ies") else word[:-1]
    return word


def title_words(title: str) -> frozenset[str]:
    """The words of a title that name a subject: `PaymentsApiDown` has three."""
    split_up = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[-_./]", " ", title)
    named = {word for word in _words(split_up) if word not in _KINDS_OF_PAGES and len(word) > 1}
    return frozenset((*named, *re.findall(r"(?<![\w])\d+", split_up)))


_KINDS_OF_PAGES = word_set(
    """
    runbook playbook procedure guide page document documentation overview architecture reference note handbook manual faq
    howto how alert operation operating checklist service configuration setting new old draft copy final
    """
)


# -- instructions


_ACTIONS = (
    "restart reboot stop start kill delete remove drain promote scale disable enable flush truncate purge drop reset rotate "
    "reload upgrade downgrade silence detach cordon evict terminate restore resync rebuild retry clear unlock force replay "
    "redeploy recreate vacuum reindex repair shrink move pause resume skip fail-over failover roll-back rollback"
)
_VERB = "|".join(one.replace("-", "[ -]") for one in sorted(_ACTIONS.split(), key=len, reverse=True))
_INSTRUCTION = re.compile(
    rf"\A(?:(?:step\s\d+\W+)?(?:first|then|next|now|finally|always|please|immediately)?,?\s*)"
    rf"(?P<no>(?:do not|don'?t|never|must not|avoid)\s(?:ever\s)?)?(?P<verb>{_VERB})(?:t?ing|p?ing|e?ing)?\s(?P<object>.+)\Z",
    re.IGNORECASE,
)
_RESTRICTED = re.compile(
    r"\b(?:before|until|unless|without|while|if|when|during|after|more than|at once|both|all|every|simultaneously"
    r"|at the same time"
    r"|directly|manually|by hand|again|first|twice|with|as|because|yourself|yet|too|except|only|from|in|on|outside|within)\b",
    re.IGNORECASE,
)
"""Limits behind a prohibition: `do not restart it before the drain` isn't the opposite of `restart it`."""
_END_OF_OBJECT = re.compile(
    r"[,;:.(]|\s(?:and|then|but|so|to|with|using|by|via|if|when|once|until|after|before|from|on|in)\s"
)
_MAX_OBJECT = 6


def _instruction(sentence: str) -> Statement | None:
    found = _INSTRUCTION.match(sentence)
    if not found or (found["no"] and _RESTRICTED.search(found["object"])):
        return None
    words = _words(_END_OF_OBJECT.split(found["object"] + " ", maxsplit=1)[0])
    if not 0 < len(words) <= _MAX_OBJECT or words <= _POINTING:
        return None
    verb = re.sub(r"[ -]", "", found["verb"].lower())
    done = ("done", "no" if bool(found["no"]) is not (verb == "disable") else "yes")
    verb = "enable" if verb == "disable" else verb
    return Statement(StatementKind.INSTRUCTION, words, frozenset((done,)), sentence, verb)


_POINTING = frozenset(
    ("it", "them", "one", "anything", "everything", "service", "process", "node", "pod", "host", "server")
)
"""An object of such words alone is another one in another text."""


# -- commands


_CONTEXT = word_set(
    """
    -n --namespace --context --cluster --region --profile --host -h -U --user -u -o --output --kubeconfig -c -l -q -v
    """
)
"""Options that name an environment, or the form of the output."""


def _commands(outline: Outline, is_harmless: IsHarmless) -> Iterator[Statement]:
    for step in outline.steps:
        title = _words(step.title)
        for command in step.commands:
            if command.placeholders or is_harmless(command.text, command.language):
                continue
            for one in _calls(command.text):
                headings = _heading_words(outline.sections[step.section])
                yield Statement(
                    StatementKind.COMMAND, title, one.values, command.text, one.subject, step.section,
                    headings, step.start, step.end,
                )  # fmt: skip


def _calls(text: str) -> Iterator[Statement]:
    """The calls in a command. A script of more than three, or one with variables in it, is not compared."""
    try:
        simple = split(text).commands
    except ShellError:
        return
    if len(simple) <= 3:
        yield from (found for one in simple if (found := _call(one)))


def _call(simple: Simple) -> Statement | None:
    words = simple.words[1:] if simple.words[:1] == ["sudo"] else simple.words
    if len(words) < 2 or any("$" in word or "<" in word for word in words):
        return None
    options, targets = _arguments(words[1:])
    own = next((at for at, target in enumerate(targets) if not _SUBCOMMAND.match(target)), len(targets))
    own = min(own, max(1, len(targets) - 1)) if own else 0
    subject = " ".join((words[0], *targets[:own]))
    values = {(name, value) for name, value in options.items() if name not in _CONTEXT}
    values |= {(f"target {at}", target) for at, target in enumerate(targets[own:], start=1)}
    environment = " ".join(f"{name}={options[name]}" for name in sorted(_CONTEXT & options.keys()))
    return Statement(StatementKind.COMMAND, frozenset(), frozenset(values), "", f"{subject} {environment}".strip())


_SUBCOMMAND = re.compile(r"[a-z]+(?:-[a-z]+)*\Z")


def _arguments(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options with their values, and the other words in order."""
    options: dict[str, str] = {}
    targets: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            targets.append(word)
        elif equals:
            options[name] = value
        elif (targets or word in _CONTEXT) and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
            options[word] = words[at]
        else:
            options[word] = ""
        at += 1
    return options, targets
