"""Classifies commands of runbooks by their worst effect, from the rules of `effects.yaml` and those of an installation.

What decides is always the worst reading: of the parts of a compound command, of what a wrapper such as `sudo` or `ssh` runs,
of statements within quotes, and of where output goes. Text that can't be split is searched for destructive words and is
never called read. `rules` explains how a rule is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import yaml

from opx.domain.procedures import Blast, Classified, Effect
from opx.knowledge_file import Marked, read_section
from opx.procedures.rules import Arguments, Program, Rule, alarming, by_word
from opx.procedures.shell import MAX_DEPTH, ShellError, Simple, split

SECTION = "procedures"
MAX_LENGTH = 10_000
"""Characters of a command that are looked at; longer ones are scripts, whose effect is unknown or destructive."""

_NOWHERE = MAX_LENGTH
_READ = Classified(effect=Effect.READ)
_UNKNOWN = Classified()
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=|\$\w+=\Z")
_CMDLET = re.compile(r"([A-Za-z]+)-([A-Za-z]\w*)\Z")
_HASH = re.compile(r"@\{\s*(?:\w+\s*=\s*(?:'[^']*'|\"[^\"$]*\"|-?\d+\b|\$\w+)[\s;]*)*\}")
_BLOCK = re.compile(r"\|\s*(?:%|\?|foreach(?:-object)?|where(?:-object)?)\s*\{", re.IGNORECASE)
_KEYWORDS = frozenset(
    {
        "-p",
        "then",
        "do",
        "else",
        "elif",
        "if",
        "while",
        "until",
        "!",
        "time",
        "{",
        "}",
        "fi",
        "done",
        "esac",
        "$",
        "=",
        "&",
        ";",
        "coproc",
    }
)
_HEADERS = frozenset({"for", "case", "select", "function", "foreach"})
_REQUEST = re.compile(r"^(GET|HEAD|POST|PUT|PATCH|DELETE)[ \t]+([/_]\S*|https?:\S+)", re.MULTILINE)
_BEGINNINGS = {"http": _REQUEST, "mongo": re.compile(r"(?:db|rs|sh)\.\w"), "sql": re.compile(r"\\[a-z!?]")}
_PLAIN_BODIES = ("/_search", "_settings", "_cluster/settings", "_mapping")
_BODY = re.compile(r"\s*(?:[\[{}\]\"]|[\w-]+:|#|HTTP/|\Z)")
_MONGO_NAME = re.compile(r"\.([a-z]\w*)(?=\s*[,)])")
_MONGO_FORCE = re.compile(r"reconfig.*\bforce[\"']?\s*:\s*true", re.IGNORECASE | re.DOTALL)
_MONGO_CALL = re.compile(r"(\w+)\s*\(\s*(?:\{\s*[\"']?(\w+))?")
_BEGINNING = re.compile(r"(?:[;&|\n])\s*((?:sudo\s+)?([a-z][\w.-]*))(?=\s)")
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.){1,300}/I?)"
_SED_COMMAND = (
    r"(?:[pdqQ=nNhHgGxDPl]|s([/|#,@:!])(?:(?!\1)[^\\\n]|\\.){0,300}\1(?:(?!\1)[^\\\n]|\\.){0,300}\1[gIip\d]*)"
)
_SED = re.compile(rf"\s*(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?\s*!?\s*{_SED_COMMAND}\s*;?\s*\Z")
"""One command of sed that only prints. Several, and those that write files or run programs, are unknown."""
_AWK_WRITES = re.compile(r"system|getline|print[^;}\n]*[>|]|@load|@include|\|&")
_PYTHON_CALL = re.compile(r"(?:([A-Za-z_]\w*)|[\])])\s*\(|\bimport\s+([\w., ]+)|\bfrom\s+(\w+)|(__\w+)")
_PYTHON_TEXT = re.compile(r"'[^'\\\n]*'|\"[^\"\\\n]*\"")
_SSM_COMMANDS = re.compile(r"(?:^|[{\s,\"'])commands?\"?'?\s*[=:]")
_HIDDEN_IN_SQL = re.compile(r"\\['\"]|/\*!|/\*\+")
_SQL_DATA = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`", re.DOTALL)
_SQL_META = re.compile(r"^[ \t]*\\([a-zA-Z!?+]+)(?![gG]\b)([^\n]*)", re.MULTILINE)
_SQL_END = re.compile(r";|\\[gGx]\w*|^[ \t]*GO[ \t]*$", re.MULTILINE)
_SQL_WORD = re.compile(r"[\w.$@#]+")
_SQL_CALL = re.compile(r"([\w.]+)\s*\(")
_SQL_QUOTED_CALL = re.compile(r"(?:\.\s*|\bselect\s+)''\s*\(", re.IGNORECASE)
_SQL_LOWER = frozenset(
    {
        "select",
        "insert",
        "update",
        "delete",
        "alter",
        "truncate",
        "create",
        "explain",
        "with",
        "drop",
        "vacuum",
        "reindex",
    }
)


@dataclass(frozen=True, slots=True)
class _Input:
    """Standard input: its text, or `is_hidden` where that isn't known; `source` is the command that writes it."""

    text: str | None = None
    is_hidden: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Call:
    """A program with arguments. `raw` are its words as written, `before` those of wrappers around it."""

    argv: tuple[str, ...]
    raw: tuple[str, ...]
    before: tuple[str, ...] = ()
    stdin: _Input = _Input()
    depth: int = 0

    def after(self, at: int, *added: str) -> _Call:
        """The command that begins at one of the words."""
        before = (*self.before, *self.raw[:at])
        return replace(
            self, argv=(*self.argv[at:], *added), raw=(*self.raw[at:], *added), before=before, depth=self.depth + 1
        )


@dataclass(frozen=True)
class EffectTable:
    """Immutable. `alarms` are words of destructive options and subcommands, `verbs` of changing ones, `scanned` of text that
    can't be split; `languages` are kinds of code by the language of a code block, `own` the installation's programs."""

    programs: Mapping[str, Program]
    alarms: frozenset[str]
    verbs: frozenset[str]
    scanned: frozenset[str]
    languages: Mapping[str, str]
    own: Mapping[str, Program] = field(default_factory=dict)

    def classify(self, command: str, language: str = "") -> Classified:
        """The worst effect of a command, which may be a script, a statement of SQL or an HTTP request. Never raises."""
        if len(command) > MAX_LENGTH:
            return self._scan(command)
        try:
            return self._code(command, self.languages.get(language.strip().lower(), "unknown"), _Input(), 0)
        except ShellError:
            return self._scan(command)

    def _scan(self, text: str) -> Classified:
        return Classified(effect=Effect.DESTRUCTIVE, rule="scan") if alarming([text], self.scanned) else _UNKNOWN

    def _code(self, text: str, language: str, stdin: _Input, depth: int) -> Classified:
        kind = self._sniffed(text) if language == "shell" else language
        found = self._of_language(text, kind, stdin, depth)
        return found if kind == "shell" else _worst([found, *self._going_on_as_shell(text, depth)])

    def _going_on_as_shell(self, text: str, depth: int) -> list[Classified]:
        """The effects of text of another language that ends in shell: `SELECT 1; rm -rf x`."""
        rests = [text[match.start(1) :] for match in _BEGINNING.finditer(text) if match[2] in self.programs]
        found = [self._shell(rest.partition("\n")[0], _Input(), depth + 1) for rest in rests[:MAX_DEPTH]]
        return [_without_undo(one) for one in found if one.effect.severity > Effect.UNKNOWN.severity]

    def _of_language(self, text: str, kind: str, stdin: _Input, depth: int) -> Classified:
        readers: dict[str, Callable[[], Classified]] = {
            "shell": lambda: self._shell(text, stdin, depth),
            "powershell": lambda: self._shell(_as_shell(text), stdin, depth),
            "sql": lambda: self._sql(text, depth),
            "redis": lambda: self._shell("\n".join(f"redis-cli {line}" for line in text.splitlines()), _Input(), depth),
            "mongo": lambda: self._mongo(text),
            "http": lambda: self._requests(text),
            "promql": lambda: Classified(effect=Effect.READ, rule="query"),
            "query": lambda: self._query(text),
            "python": lambda: self._python(text),
            "sed": lambda: _READ if _SED.match(text) else _UNKNOWN,
            "awk": lambda: _UNKNOWN if _AWK_WRITES.search(text) else _READ,
            "ssm": lambda: self._remote_commands(text, depth),
            "port": lambda: self._sent(text),
        }
        return readers.get(kind, lambda: self._scan(text))()

    def _query(self, text: str) -> Classified:
        found = self._scan(text)
        if found is _UNKNOWN and not alarming([text], self.verbs):
            return Classified(effect=Effect.READ, rule="query")
        return found

    def _sent(self, text: str) -> Classified:
        """Lines that are sent to a port or socket."""
        lines = [line.split() for line in re.split(r"\n|\\r|\\n|;", text)]
        return _worst([self._by_rules("port", line) for line in lines if line] or [_READ])

    def _inner(self, text: str, language: str, depth: int, stdin: _Input = _Input()) -> Classified:
        """The effect of code within a command. It runs somewhere else, so that its inverse alone undoes nothing."""
        return _without_undo(self._code(text, language, stdin, depth + 1))

    def _sniffed(self, text: str) -> str:
        """The language of text that is called shell, or nothing at all."""
        lines = (line.strip() for line in text.splitlines())
        line = next((line for line in lines if line and not line.startswith(("--", "#", "//"))), "")
        first, _, rest = line.partition(" ")
        first = first.strip("(;")
        is_statement = not rest.lstrip().startswith(("-", "=", "/"))
        cmdlet = _CMDLET.match(first)
        is_cmdlet = cmdlet and cmdlet[1].lower() in self.programs["cmdlet"].by_word
        if is_cmdlet or _BLOCK.search(text) or re.match(r"\$\w+\s*=", line):
            return "powershell"
        if found := next((language for language, pattern in _BEGINNINGS.items() if pattern.match(line)), ""):
            return found
        for language, name in (("sql", "sql"), ("redis", "redis-cli")):
            known = first.lower() in self.programs[name].by_word and first not in self.programs
            if is_statement and known and (first.isupper() or first in _SQL_LOWER):
                return language
        return "shell"

    # -- shell

    def _shell(self, text: str, stdin: _Input, depth: int) -> Classified:
        script = split(text, depth)
        found: list[Classified] = []
        previous: Simple | None = None
        for simple in script.commands:
            found += self._simple(simple, _input_of(simple, previous, stdin), depth)
            previous = simple
        if not found and not script.substitutions:
            return _UNKNOWN
        found += [self._inner(inner, "shell", depth) for inner in script.substitutions]
        return _worst(found) if len(script.commands) == 1 else _without_undo(_worst(found))

    def _simple(self, simple: Simple, stdin: _Input, depth: int) -> Iterator[Classified]:
        call = _Call(tuple(simple.words), tuple(simple.raw), stdin=stdin, depth=depth)
        writes_nothing = not simple.words
        for part in _parts(call):
            writes_nothing = _writes_nothing(part.argv)
            yield self._call(part)
        for operator, target in simple.writes:
            yield self._write(operator, target, is_truncation=writes_nothing)
        yield _READ

    def _write(self, operator: str, target: str, *, is_truncation: bool = False) -> Classified:
        """An output redirection. One that gets no output empties the file."""
        if operator == ">&" and (target.isdigit() or target == "-"):
            return _READ
        verb = ">>" if operator == ">>" else "empty" if is_truncation else ">"
        is_local = not target.startswith(("/", "~", "$", "<", "{")) and ".." not in target
        found = self._by_rules("redirection", [verb, "local" if is_local else "other", target])
        return Classified(effect=found.effect, blast=found.blast, rule="shell redirection")

    def _call(self, call: _Call) -> Classified:
        if call.depth > MAX_DEPTH:
            raise ShellError("too many wrappers")
        packaged = self._packaged(call)
        name = _base(call.argv[0])
        if name not in self.own:
            return packaged
        given = self.own[name].rule(self.own[name].arguments(call.argv[1:]))
        if given is None or (given.effect is Effect.READ and packaged.effect is Effect.DESTRUCTIVE):
            return packaged
        return Classified(
            effect=given.effect, blast=given.blast, undo=" ".join(given.inverse), rule=f"{name} {given.name}".strip()
        )

    def _packaged(self, call: _Call) -> Classified:
        name = call.argv[0]
        program = self._program(name)
        cmdlet = _CMDLET.match(name)
        if program is None and cmdlet and cmdlet[1].lower() in self.programs["cmdlet"].by_word:
            argv = ("cmdlet", cmdlet[1], cmdlet[2], *call.argv[1:])
            program, call = self.programs["cmdlet"], replace(call, argv=argv, raw=())
        if program is None:
            return self._expression(name)
        if program.name == "http" and name.isupper():
            call = replace(call, argv=("http", *call.argv))
        found = program.arguments(call.argv[1:])
        if _is_harmless(program, found, call.argv, _end_of_own(program, found)):
            return Classified(effect=Effect.READ, rule=program.name)
        return self._run(program, call, found) or self._decided(program, call, found)

    def _program(self, name: str) -> Program | None:
        """The program of a name; not that of a script in a folder, which may do anything: `./test`."""
        base = _base(name)
        folder = name.rpartition("/")[0]
        if folder and not folder.lower().endswith(("bin", "system32", "inetsrv")) and not base.endswith(".sh"):
            return None
        return self.programs.get(base) or self.programs.get(base.lower())

    def _expression(self, word: str) -> Classified:
        """PowerShell's `$_.Name`, or a number; anything else that is no known program is unknown."""
        return _READ if re.match(r"(?:\$_(\.\w+)*|-?\d+)\Z", word) else _UNKNOWN

    def _run(self, program: Program, call: _Call, found: Arguments) -> Classified | None:
        """The effect of the command that a wrapper runs, None if it runs none."""
        inner = [call.after(start).argv for start in _after_exec(call.argv) if program.name == "find"]
        if inner:
            calls = [_Call(argv, (), stdin=_Input(is_hidden=True), depth=call.depth + 1) for argv in map(_until, inner)]
            return _worst([*(self._call(one) for one in calls if one.argv), self._decided(program, call, found)])
        start = _end_of_own(program, found) + 1
        if start > _NOWHERE:
            return None
        rule = program.rule(found)
        own = [self._inner(value, language, call.depth) for value, language in _codes(program, found)]
        if rule and (rule.options or (rule.words and not program.joins)):
            own.append(self._guarded(program, rule, found))
        if program.joins or (len(call.argv) == start + 1 and " " in call.argv[start]):
            text = " ".join(call.argv[start:])
            return _worst([self._inner(text, program.joins or "shell", call.depth, call.stdin), *own])
        replaced = program.name != "xargs" or found.values(("-I", "-i", "--replace"))
        parts = _parts(call.after(start) if replaced else call.after(start, "<arguments>"))
        ran = [self._call(part if replaced else replace(part, raw=())) for part in parts] or [_READ]
        return _worst([*ran, *own])

    def _decided(self, program: Program, call: _Call, found: Arguments) -> Classified:
        """The effect by the program's own rules, its code and standard input, and the files that it writes."""
        rule = program.rule(found)
        parts = [self._inner(value, language, call.depth) for value, language in _codes(program, found)]
        if not parts and program.reads_code(rule):
            parts += self._from_stdin(program.stdin, call)
        if program.http:
            parts += self._http(program, found)
        is_download = bool(program.http)
        parts += [
            self._write(">", value)
            for value in found.values(program.writes)
            if value != "-" and (value[:1] in "/~." or not is_download)
        ]
        if "*" in program.writes:
            operator = ">>" if found.values(("-a", "--append")) else ">"
            parts += [self._write(operator, word) for word in found.words]
        if not parts or rule is None or rule.options or rule.effect is not Effect.READ:
            parts.append(self._guarded(program, rule, found, called=_base(call.argv[0]), undo=_undo(call, found, rule)))
        return _worst(parts)

    def _from_stdin(self, language: str, call: _Call) -> list[Classified]:
        if call.stdin.text is not None:
            return [self._inner(call.stdin.text, language, call.depth)]
        return [self._scan(call.stdin.source)] if call.stdin.is_hidden else []

    def _guarded(
        self, program: Program, rule: Rule | None, found: Arguments, *, called: str = "", undo: str = ""
    ) -> Classified:
        """The rule's effect, unless options that it doesn't name sound worse."""
        named = {name for names, _ in rule.options for name in names} if rule else set()
        options = {name for name, _ in found.options if not name.startswith("--no-")} - named - program.flags
        words = [*options, *(rule.unnamed(found) if rule else found.words)]
        is_read = bool(rule and called and rule.effect is Effect.READ)
        later = [word.lower() for word in found.words[len(rule.words) :]] if rule and is_read else []
        following = set(later[:1])
        is_mild = not rule or rule.effect.severity <= Effect.REVERSIBLE.severity
        if is_mild and not program.is_data and (alarming(words, self.alarms) or following & self.alarms):
            return Classified(effect=Effect.DESTRUCTIVE, rule=f"{called or program.name} *")
        doing = {name.removeprefix("--") for name in options - program.values}
        is_unsure = (rule and rule.words and (not found.is_sure or following & self.verbs)) or (
            is_read and (doing & self.verbs or (not program.is_data and not self.alarms.isdisjoint(later)))
        )
        if rule is None or (rule.effect is Effect.READ and is_unsure):
            return _UNKNOWN
        name = f"{called or program.name} {rule.name}".strip()
        return Classified(effect=rule.effect, blast=rule.blast, undo=undo, rule=name)

    def _by_rules(self, name: str, words: Iterable[str]) -> Classified:
        program = self.programs[name]
        found = Arguments([word.lower() for word in words] if program.folds else list(words))
        return self._guarded(program, program.rule(found), found)

    # -- HTTP, SQL and MongoDB

    def _http(self, program: Program, found: Arguments) -> list[Classified]:
        method = next((name for name, options in program.http.items() if found.values(options)), "get")
        given = found.values(program.http["method"])
        body = [value for options in program.http.values() for value in found.values(options)]
        urls = [*found.words, *found.values(("--url", "-uri"))]
        return [self._request(given[-1] if given else method, url, body) for url in urls]

    def _requests(self, text: str) -> Classified:
        """Requests as a console or a `.http` file has them, each with the body below it."""
        requests = [self._request(match[1], match[2], ()) for match in _REQUEST.finditer(text)]
        rest = _REQUEST.sub("", text)
        others = [
            self._scan(line) for line in rest.splitlines() if not _BODY.match(line) or alarming([line], self.alarms)
        ]
        return _worst([*requests, *others] or [_UNKNOWN])

    def _request(self, method: str, url: str, body: Sequence[str]) -> Classified:
        found = self._by_rules("http", [method, url])
        segments = set(re.split(r"[/?&=:]", url.lower().partition("://")[2] or url.lower())[1:])
        is_mild = found.effect in (Effect.READ, Effect.REVERSIBLE) and not any(part in url for part in _PLAIN_BODIES)
        if is_mild and (not self.alarms.isdisjoint(segments) or (method != "get" and alarming(body, self.alarms))):
            return Classified(effect=Effect.DESTRUCTIVE, rule="http *")
        return found

    def _sql(self, text: str, depth: int) -> Classified:
        if _HIDDEN_IN_SQL.search(text):
            raise ShellError("a quote or comment that dialects read differently")
        found = []
        for name, rest in _SQL_META.findall(text):
            found.append(self._inner(rest, "shell", depth) if name == "!" else self._meta(name, rest))
        bare = _SQL_DATA.sub(" '' ", _SQL_META.sub(";", text))
        if "'" in bare.replace("''", "") or '"' in bare or "`" in bare:
            raise ShellError("a quote is not closed")
        found += [self._statement(part) for part in _SQL_END.split(bare) if _SQL_WORD.search(part)]
        if r"\gexec" in text:
            found.append(self._scan(text))
        return _worst(found or [_READ])

    def _meta(self, name: str, rest: str) -> Classified:
        if "`" in rest:
            raise ShellError("psql runs what is in back-ticks")
        return self._by_rules("psql-meta", [name, *rest.split()])

    def _statement(self, text: str) -> Classified:
        found = self._by_rules("sql", _SQL_WORD.findall(text))
        if found.effect is not Effect.READ:
            return found
        calls = [name for name in _SQL_CALL.findall(text) if name.lower() not in self.programs["sql"].flags]
        if alarming(calls, self.alarms):
            return Classified(effect=Effect.DESTRUCTIVE, rule="sql function")
        return _UNKNOWN if alarming(calls, self.verbs) or _SQL_QUOTED_CALL.search(text) else found

    def _mongo(self, text: str) -> Classified:
        calls = [[name, argument] for name, argument in _MONGO_CALL.findall(text)]
        if "$out" in text or "$merge" in text:
            calls.append(["$out", ""])
        if "](" in text or alarming(_MONGO_NAME.findall(text), self.alarms):
            calls.append(["<any>", ""])
        if _MONGO_FORCE.search(text):
            calls.append(["reconfig", "force"])
        if not calls:
            return _READ if re.match(r"\s*(?:show|use|db\b|exit|quit)", text) else self._scan(text)
        return _worst([self._by_rules("mongo-method", call) for call in calls])

    def _python(self, text: str) -> Classified:
        """Python by the names that it calls and imports."""
        bare = _PYTHON_TEXT.sub("''", text)
        names = [name for match in _PYTHON_CALL.finditer(bare) for name in match.groups("") if name.strip()]
        words = [word for name in names for word in re.split(r"[., ]+", name) if word]
        found = _worst([_READ, *(self._by_rules("python-name", [word]) for word in words)])
        return self._scan(text) if found.effect is Effect.UNKNOWN else found

    def _remote_commands(self, text: str, depth: int) -> Classified:
        """`commands=["df -h","uptime"]` of a session or command on instances."""
        named = _SSM_COMMANDS.search(text)
        if not named:
            return _READ
        lines = re.sub(r"[\"']\s*,\s*[\"']", "\n", text[named.end() :].replace('\\"', '"').strip(" []{}"))
        return _worst([self._inner(lines.strip("\"'"), "shell", depth), self._scan(text)])


def _worst(found: Sequence[Classified]) -> Classified:
    """The worst of several effects. Only a command that changes something alone can be undone."""
    worst = max(found, key=lambda one: one.effect.severity)
    if worst.effect is Effect.READ:
        return next((one for one in found if one.rule), worst)
    changes = sum(one.effect is not Effect.READ for one in found)
    return worst if changes == 1 and worst.effect is Effect.REVERSIBLE else _without_undo(worst)


def _without_undo(found: Classified) -> Classified:
    return Classified(effect=found.effect, blast=found.blast, rule=found.rule) if found.undo else found


def _input_of(simple: Simple, previous: Simple | None, outer: _Input) -> _Input:
    if simple.stdin is not None:
        return _Input(simple.stdin)
    if not simple.piped:
        return _Input(is_hidden=True) if simple.reads_file else outer
    if previous and previous.words[:1] in (["echo"], ["printf"]) and not previous.piped:
        return _Input(" ".join(word for word in previous.words[1:] if not word.startswith("-")))
    if previous and previous.words == ["cat"] and previous.stdin is not None:
        return _Input(previous.stdin)
    return _Input(is_hidden=True, source=" ".join(previous.words) if previous else "")


def _parts(call: _Call) -> Iterator[_Call]:
    """The commands among words: without keywords and assignments, and those of blocks (`{ ... }`) by themselves."""
    argv = call.argv
    at = 0
    while at < len(argv):
        end = next((here for here in range(at, len(argv)) if argv[here] in ("{", "}")), len(argv))
        while at < end and (argv[at] in _KEYWORDS or _is_assignment(argv[at : at + 2])):
            at += 1
        if at < end and argv[at] not in _HEADERS:
            part = call.after(at)
            yield replace(part, argv=argv[at:end], raw=call.raw[at:end], depth=call.depth)
        at = end + 1


def _writes_nothing(argv: Sequence[str]) -> bool:
    if argv[0] in ("echo", "printf"):
        return not any(word.strip() for word in argv[1:] if word != "-n")
    return argv[0] in (":", "true") or argv[-1] == "/dev/null"


def _is_assignment(words: Sequence[str]) -> bool:
    """`NAME=value`, or PowerShell's `$name = value`."""
    return bool(_ASSIGNMENT.match(words[0])) or (words[0].startswith("$") and words[1:] == ("=",))


def _base(name: str) -> str:
    return name.rpartition("/")[2].rpartition("\\")[2].removesuffix(".exe")


def _after_exec(argv: Sequence[str]) -> list[int]:
    return [at + 1 for at, word in enumerate(argv) if word in ("-exec", "-execdir", "-ok", "-okdir")]


def _until(argv: tuple[str, ...]) -> tuple[str, ...]:
    ends = [at for at, word in enumerate(argv) if word in (";", "+")]
    return argv[: ends[0]] if ends else argv


def _as_shell(text: str) -> str:
    """PowerShell with blocks, method calls and line continuations as a shell would have them."""
    plain = re.sub(r"\$\{(\w+)\}", r"$\1", text.replace("`\n", " ").replace("`", ""))
    plain = _HASH.sub("@hash", plain)
    called = re.sub(r"(?<=[\w)\]])\.([A-Za-z]+)\(", r" ; Invoke-\1 (", plain)
    return re.sub(r"@?([{}])", r" \1 ", called).replace("\\", "/")


def _end_of_own(program: Program, found: Arguments) -> int:
    """Where the words of a command begin that a program runs, in the argument vector without the program's name."""
    count = max((len(rule.words) for rule in program.runs if rule.fits(found)), default=len(found.words))
    return found.at[count] if count < len(found.words) else _NOWHERE


def _codes(program: Program, found: Arguments) -> list[tuple[str, str]]:
    """Code among the arguments and its language; that of `*` is the first word, unless an option has it."""
    codes = [(value, language) for name, language in program.code.items() for value in found.values((name,))]
    if not codes and "*" in program.code and found.words:
        codes.append((found.words[0], program.code["*"]))
    return codes


def _is_harmless(program: Program, found: Arguments, argv: Sequence[str], end: int) -> bool:
    """True for dry runs and help, whatever else is among the program's own arguments, which end before `end`."""
    off = ("none", "false", "0")
    for at, (name, value) in zip(found.options_at, found.options, strict=True):
        if at < end and name in program.harmless and value.lower() not in off:
            return True
    runs_others = program.runs or program.code or program.name == "find"
    return not runs_others and (argv[1:] == ("--version",) or (argv[-1] == "--help" and "--" not in argv))


def _undo(call: _Call, found: Arguments, rule: Rule | None) -> str:
    if rule is None or not rule.inverse or not call.raw:
        return ""
    words = list(call.raw[1:])
    if not rule.keeps_options:
        last = found.at[len(rule.words) - 1]
        words = [word for at, word in enumerate(words) if at <= last or at in found.at]
    plain = [word for word in rule.inverse if not word.startswith("-")]
    options = [word for word in rule.inverse if word.startswith("-")]
    if (len(plain), len(options)) == (len(rule.words), len(rule.options)):
        for at, word in zip(found.at, plain, strict=False):
            words[at] = words[at] if word == "*" else word
        for (names, _), option in zip(rule.options, options, strict=True):
            words = [option if word in names else word for word in words]
    else:
        words = list(rule.inverse)
    return " ".join((*call.before, call.raw[0], *words))


# -- the table


def effect_table(extra: Mapping[str, Classified] | None = None) -> EffectTable:
    """The packaged table, with rules of an installation on top: the beginning of a command, and its effect.

    The longest beginning wins over the packaged table, except that it can't call read what the packaged table calls
    destructive: then the packaged rule stays.
    """
    if not extra:
        return _packaged()
    rules: dict[str, list[Rule]] = {}
    for beginning, given in extra.items():
        name, _, rest = beginning.partition(" ")
        rule = Rule.parse(rest, given.effect, given.blast)
        rules.setdefault(name, []).append(replace(rule, inverse=tuple(given.undo.split())))
    return replace(_packaged(), own={name: Program(name, by_word=by_word(many)) for name, many in rules.items()})


@cache
def _packaged() -> EffectTable:
    text = files("opx.procedures").joinpath("effects.yaml").read_text(encoding="utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    flags = frozenset(data["flags"].split())
    programs: dict[str, Program] = {}
    for names, given in data["programs"].items():
        program = Program.of(names.split()[0], given, flags)
        programs |= dict.fromkeys([*names.split(), *given.get("also", "").split()], program)
    alarms = frozenset(data["alarms"].split())
    languages = {name: kind for kind, names in data["languages"].items() for name in names.split()}
    verbs = frozenset(data["verbs"].split())
    return EffectTable(programs, alarms, verbs, alarms | frozenset(data["scanned"].split()), {"": "shell", **languages})


# -- the section of knowledge.yaml


def read_effects(path: Path | None = None) -> dict[str, Classified]:
    """The file's effects of an installation's own commands, by how these begin. Raises `KnowledgeConfigError`."""
    section = read_section(SECTION, path)
    commands = section.fields(optional=("commands",)).get("commands") if section else None
    return {beginning: _effect_of(entry) for beginning, entry in commands.entries().items()} if commands else {}


def _effect_of(entry: Marked) -> Classified:
    """`destructive`, or `{effect: reversible, blast: service, undo: acmectl failback}`."""
    if isinstance(entry.node, yaml.ScalarNode):
        return Classified(effect=_one_of(Effect, entry))
    fields = entry.fields(required=("effect",), optional=("blast", "undo"))
    return Classified(
        effect=_one_of(Effect, fields["effect"]),
        blast=_one_of(Blast, fields["blast"]) if "blast" in fields else None,
        undo=fields["undo"].text() if "undo" in fields else "",
    )


E = TypeVar("E", Effect, Blast)


def _one_of(kind: type[E], entry: Marked) -> E:
    name = entry.text()
    try:
        return kind(name)
    except ValueError as exc:
        allowed = ", ".join(one.value for one in kind)
        raise entry.error(f"unknown {kind.__name__.lower()} {name!r}; allowed: {allowed}") from exc
