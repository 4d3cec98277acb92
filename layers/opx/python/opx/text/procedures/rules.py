"""Rules of the effect table: parses them, and finds the one that a program's arguments fall under.

A rule is the beginning of a command's words with conditions: `drain --force|--delete-emptydir-data => uncordon @service`.

    get                a word; `*` stands for any characters, `|` separates alternatives; `**` is a word that is data
    --force, -X=DELETE an option that must be there, with a value
    ..*DROP*           a word that must follow somewhere
    => uncordon        the inverse: its words replace those of the rule one for one, and the options their names or values;
                       if it has another number of them, it replaces all words and options
    -> uncordon        the same, without the options that follow the rule's words
                       Either way options of `where` stay, and `*` is what the rule's own word has for its `*`
    @service           the blast radius

A pattern has `␣` for a space and `¦` for a pipe.

The rule with the most words wins, conditions counting as one; then one with conditions, the one with the most letters in
its words, and the worst effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from opx.domain.procedures import Blast, Effect
from opx.domain.record import replace

_LETTERS = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Glob(Struct, frozen=True):
    """A pattern of `*` and `|`: words, parts of words (`*x*`), and others. Linear in the length of the word, whatever is in
    it. `letters` of the shortest alternative."""

    text: str
    literals: frozenset[str]
    contained: tuple[str, ...]
    others: tuple[tuple[str, ...], ...]
    letters: int

    @classmethod
    def of(cls, text: str) -> Glob:
        split = [tuple(one.replace("␣", " ").replace("¦", "|").split("*")) for one in text.split("|")]
        literals = frozenset(parts[0] for parts in split if len(parts) == 1)
        contained = tuple(parts[1] for parts in split if len(parts) == 3 and not parts[0] and not parts[2])
        others = tuple(parts for parts in split if len(parts) > 1 and (len(parts) != 3 or parts[0] or parts[2]))
        return cls(text, literals, contained, others, min(sum(map(len, parts)) + (len(parts) == 1) for parts in split))

    @property
    def is_literal(self) -> bool:
        return len(self.literals) == 1 and not self.contained and not self.others

    def inverted(self, word: str, inverse: str) -> str:
        """The inverse of a word that fits: with what the word has for the pattern's `*`, or for `*` the word itself."""
        first, star, last = self.text.partition("*")
        if not star or "*" in last or "|" in self.text:
            first = last = ""
        return inverse.replace("*", word[len(first) : len(word) - len(last)])

    def fits(self, word: str) -> bool:
        if word in self.literals:
            return True
        for part in self.contained:  # a loop: `any` takes three times as long
            if part in word:
                return True
        for parts in self.others:  # noqa: SIM110 - as above
            if word.startswith(parts[0]) and _fits(parts, word):
                return True
        return False


def _fits(parts: tuple[str, ...], word: str) -> bool:
    """True for a word that begins with the first part, if the others follow and the last is its end."""
    first, *between, last = parts
    if len(word) < len(first) + len(last) or not word.endswith(last):
        return False
    at, end = len(first), len(word) - len(last)
    for part in between:
        at = word.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


class Arguments(Struct):
    """`words` are the positional arguments, `at` where each is in the argument vector, as `options_at` for options.
    `is_sure` unless an unknown option before the first word may have it as its value."""

    words: list[str] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    options_at: list[int] = field(default_factory=list)
    is_sure: bool = True

    def values(self, names: Iterable[str]) -> list[str]:
        return [value for name, value in self.options if name in names]


class Rule(Struct, frozen=True):
    """`name` is the rule as written, `inverse` the words of the command that puts it back, `weight` its rank. `is_bare`:
    it is for the program without words. `skips_group`: the first word is none that must follow somewhere."""

    effect: Effect
    name: str
    words: tuple[Glob, ...] = ()
    options: tuple[tuple[frozenset[str], Glob | None], ...] = ()
    anywhere: tuple[Glob, ...] = ()
    inverse: tuple[str, ...] = ()
    keeps_options: bool = True
    blast: Blast | None = None
    weight: tuple[int, bool, int, int] = (0, False, 0, 0)
    is_bare: bool = False
    skips_group: bool = False

    @classmethod
    def parse(cls, text: str, effect: Effect, blast: Blast | None = None, *, folds: bool = False) -> Rule:
        rule, arrow, inverse = re.split(r"([=-]>)", f"{text}=>")[:3]
        marks = [word for word in text.split() if word.startswith("@")]
        named = [word for word in rule.split() if not word.startswith("@")]
        words = [word.lower() for word in named] if folds else named
        plain = [word for word in words if not word.startswith(("-", ".."))]
        if marks:
            blast = Blast(marks[0][1:])
        return cls(
            effect,
            " ".join(word.removeprefix("..") for word in named),
            tuple(map(Glob.of, plain)),
            tuple(_option(word) for word in words if word.startswith("-")),
            tuple(Glob.of(word[2:]) for word in words if word.startswith("..")),
            tuple(word for word in inverse.split() if not word.startswith("@")),
            arrow == "=>",
            blast if effect is not Effect.READ else None,
            _weight(plain, has_condition=len(plain) < len(words), effect=effect),
        )

    @property
    def begins(self) -> bool:
        """True if the rule is for a subcommand."""
        return bool(self.words) and self.words[0].is_literal

    def unnamed(self, found: Arguments) -> list[str]:
        """The words that the rule doesn't name, although they may be subcommands: those that a lone `*` stands for."""
        if not self.words and self.anywhere:
            return found.words
        return [word for pattern, word in zip(self.words, found.words, strict=False) if pattern.text == "*"]

    def fits(self, found: Arguments) -> bool:
        if len(self.words) > len(found.words) or (self.is_bare and found.words):
            return False
        for pattern, word in zip(self.words, found.words, strict=False):
            if not pattern.fits(word):
                return False
        rest = found.words[len(self.words) or self.skips_group :]
        for option in self.options:
            if not any(_has(option, *given) for given in found.options):
                return False
        return not self.anywhere or all(any(map(pattern.fits, rest)) for pattern in self.anywhere)


def _weight(words: Sequence[str], *, has_condition: bool, effect: Effect) -> tuple[int, bool, int, int]:
    """Conditions count as one word, however many there are: which of them holds says nothing about the others."""
    letters = sum(Glob.of(word).letters for word in words)
    return len(words) + has_condition, has_condition, letters, effect.severity


def _option(text: str) -> tuple[frozenset[str], Glob | None]:
    names, _, value = text.partition("=")
    return frozenset(names.split("|")), Glob.of(value) if value else None


def _has(wanted: tuple[frozenset[str], Glob | None], name: str, value: str) -> bool:
    return name in wanted[0] and (wanted[1] is None or wanted[1].fits(value))


class Program(Struct, frozen=True):
    """Describes how to read a program's arguments, with its rules by their first word (see `by_word`).

    `values` are options that have a value, `code` those whose value is code of a language, `http` options by the method that
    they imply, `writes` those of files that are written, `fills` those of files or folders that are created. `where` are
    options that say where a command runs, which its inverse has, too. `stdin` is the language of standard input, which it
    reads by rules without words and those in `sessions`. `runs` are rules up to where a command begins that it runs; `joins`
    its language if its words are joined. `is_long`: options with one dash have long names. `is_data`: its arguments are data.
    `is_script`: its first word is a script, and options after it are the script's. `folds`: letters may be of either case.
    `prefixes` are words before a subcommand that mean nothing; of `pairs`, the second puts back what the first did.
    """

    name: str
    values: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    harmless: frozenset[str] = frozenset()
    code: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    sessions: frozenset[str] = frozenset()
    http: Mapping[str, frozenset[str]] = field(default_factory=dict)
    runs: tuple[Rule, ...] = ()
    writes: frozenset[str] = frozenset()
    fills: frozenset[str] = frozenset()
    where: frozenset[str] = frozenset()
    joins: str = ""
    is_long: bool = False
    is_data: bool = False
    is_script: bool = False
    folds: bool = False
    prefixes: frozenset[str] = frozenset()
    pairs: tuple[str, ...] = ()
    by_word: Mapping[str, Sequence[Rule]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any], flags: frozenset[str]) -> Program:
        """A program of the table; `flags` are those of all programs."""
        sets = {
            key: frozenset(given.get(key, "").split())
            for key in ("values", "flags", "harmless", "writes", "fills", "where", "prefixes")
        }
        http = {method: frozenset(options.split()) for method, options in given.get("http", {}).items()}
        code, folds = given.get("code", {}), bool(given.get("folds"))
        blast = Blast(given["blast"]) if "blast" in given else None
        return cls(
            name=name,
            values=sets["values"] | frozenset(code) | sets["writes"] | sets["fills"] | http.get("method", frozenset()),
            flags=sets["flags"] | flags,
            harmless=sets["harmless"],
            code=code,
            stdin=given.get("stdin", ""),
            sessions=frozenset(_lines(given.get("sessions"))),
            http=http,
            runs=tuple(Rule.parse(line, Effect.UNKNOWN) for line in _lines(given.get("runs"))),
            writes=sets["writes"],
            fills=sets["fills"],
            where=sets["where"],
            joins=given.get("joins", ""),
            is_long=bool(given.get("long")),
            is_data=bool(given.get("data")),
            is_script=bool(given.get("script")),
            prefixes=sets["prefixes"],
            pairs=tuple(given.get("pairs", "").split()),
            folds=folds,
            by_word=StatedRules(given, blast, folds=folds),
        )

    def reads_code(self, rule: Rule | None) -> bool:
        """True if the program takes standard input as code."""
        names = any(word.text.strip("*") for word in rule.words) if rule else False
        return bool(self.stdin) and (not names or (rule is not None and rule.name in self.sessions))

    def arguments(self, argv: Sequence[str]) -> Arguments:
        """Takes words after the program's name apart."""
        found = Arguments()
        at = 0
        while at < len(argv):
            word, at = argv[at].lower() if self.folds else argv[at], at + 1
            if word == "--":
                found.options.append((word, ""))
                found.options_at.append(at - 1)
                found.words += argv[at:]
                found.at += range(at, len(argv))
                break
            if not word.startswith("-") or word == "-":
                if found.words or word not in self.prefixes:
                    found.words.append(word)
                    found.at.append(at - 1)
                continue
            here = at - 1
            name, value, lacks_value = self._option(word, found)
            if lacks_value and at < len(argv):
                value, at = argv[at], at + 1
            found.options.append((name, value))
            found.options_at += [here] * (len(found.options) - len(found.options_at))
            if not found.words and name.startswith("--") and "=" not in word:
                found.is_sure = found.is_sure and (
                    name in self.values or name in self.flags or name.startswith("--no-")
                )
        return found

    def _option(self, word: str, found: Arguments) -> tuple[str, str, bool]:
        """The last option of a word, its value, and whether the next word is that. Adds the ones before: `-it`."""
        name, equals, value = word.partition("=")
        if name in self.values or word.startswith("--") or self.is_long:
            return name, value, name in self.values and not equals
        for at, letter in enumerate(word[1:], 1):
            if f"-{letter}" in self.values:
                value = word[at + 1 :]
                return f"-{letter}", value.removeprefix("="), not value
            if at < len(word) - 1:
                found.options.append((f"-{letter}", ""))
        return f"-{word[-1]}", "", False

    def rule(self, found: Arguments) -> Rule | None:
        """The rule that decides, None if none fits."""
        keys = {"", *found.words[:1], *(f"* {word.partition('-')[0]}" for word in found.words[1:2])}
        fitting = (next((rule for rule in self.by_word.get(key, ()) if rule.fits(found)), None) for key in keys)
        best = max((rule for rule in fitting if rule), key=lambda rule: rule.weight, default=None)
        if best and best.effect is Effect.READ and best.options and not best.words:  # `-n` in `route -n add`
            others = (rule for key in keys for rule in self.by_word.get(key, ()) if rule.begins and rule.fits(found))
            return max(others, key=lambda rule: rule.weight, default=best)
        return best


class Programs(Mapping[str, Program]):
    """Programs by name, each read from what the table states on its first use: a question needs a few of hundreds,
    and reading all takes as long as a third of a cold start. `stated` has the first of a program's names, and its entry."""

    def __init__(self, stated: Mapping[str, tuple[str, Mapping[str, Any]]], flags: frozenset[str]) -> None:
        self._stated = stated
        self._flags = flags
        self._read: dict[str, Program] = {}

    def __getitem__(self, name: str) -> Program:
        first, given = self._stated[name]
        if first not in self._read:
            self._read[first] = Program.of(first, given, self._flags)
        return self._read[first]

    def __contains__(self, name: object) -> bool:
        return name in self._stated

    def __iter__(self) -> Iterator[str]:
        return iter(self._stated)

    def __len__(self) -> int:
        return len(self._stated)


class StatedRules(Mapping[str, Sequence[Rule]]):
    """The rules of a program that the table states, by word as in `by_word`; read on first use."""

    def __init__(self, given: Mapping[str, Any], blast: Blast | None, *, folds: bool) -> None:
        self._lines: dict[str, list[tuple[Effect, str]]] = {}
        self._read: dict[str, Sequence[Rule]] = {}
        self._blast = blast
        self._folds = folds
        self._has_groups = bool(given.get("groups"))
        self._has_subcommands = False
        for effect in Effect:
            for line in _lines(given.get(effect.value)):
                words = _plain(line.lower() if folds else line)
                self._lines.setdefault(_key(words), []).append((effect, line))
                self._has_subcommands |= effect is Effect.READ and bool(words) and _is_literal(words[0])

    def __getitem__(self, word: str) -> Sequence[Rule]:
        if word not in self._read:
            rules = [self._rule(effect, line) for effect, line in self._lines[word]]
            self._read[word] = sorted(rules, key=lambda rule: rule.weight, reverse=True)
        return self._read[word]

    def _rule(self, effect: Effect, line: str) -> Rule:
        rule = Rule.parse(line, effect, self._blast, folds=self._folds)
        is_bare = self._has_subcommands and effect is Effect.READ and not rule.name
        return replace(rule, is_bare=is_bare, skips_group=self._has_groups)

    def __contains__(self, word: object) -> bool:
        return word in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def by_word(rules: Iterable[Rule]) -> dict[str, list[Rule]]:
    """The heaviest first, by the first word, by the beginning of the second (`* describe`), or by ""."""
    found: dict[str, list[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: rule.weight, reverse=True):
        found.setdefault(_key([word.text for word in rule.words]), []).append(rule)
    return found


def _key(words: Sequence[str]) -> str:
    first, second = (*words, "", "")[:2]
    beginning = second.partition("-")[0]
    if first == "*" and beginning and "|" not in second and "*" not in beginning:
        return f"* {beginning}"
    return first if _is_literal(first) else ""


def _is_literal(word: str) -> bool:
    return "*" not in word and "|" not in word


def _plain(rule: str) -> list[str]:
    """Words of a rule as written that stand for words of a command."""
    words = re.split(r"[=-]>", rule)[0].split()
    return [word for word in words if not word.startswith(("@", "-", ".."))]


def _lines(text: str | None) -> list[str]:
    """Rules are separated by commas; an empty one is the program without a subcommand."""
    return [] if text is None else [line.strip() for line in text.split(",")]


def alarming(words: Iterable[str], alarms: frozenset[str]) -> bool:
    """True if a part of a word is one of the alarms: `--force-delete`, `deleteTopic`, `rabbitmq_purge`."""
    return any(not alarms.isdisjoint(_parts(word)) for word in words)


@lru_cache(maxsize=4096)
def _parts(word: str) -> frozenset[str]:
    return frozenset(_LETTERS.findall(_CAMEL.sub(" ", word).lower()))
