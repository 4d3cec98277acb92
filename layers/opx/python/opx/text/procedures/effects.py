"""Classifies commands of runbooks by their worst effect, from the rules of `effects.yaml` and those of an installation.

The worst reading decides: of the parts of a compound command, of the command that a wrapper such as `sudo` or `ssh` runs,
of statements within quotes, and of where output goes. Text that can't be split is searched for destructive words and is
never called read. `languages` reads what isn't shell; `rules` explains how a rule is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from opx.domain.ids import stable_hash
from opx.domain.procedures import FOREIGN_CODE, Blast, Classified, Effect, Step, StoredEffects
from opx.domain.record import replace, to_json
from opx.runtime.knowledge_file import Marked, read_section
from opx.text.procedures.languages import CMDLET, READ, UNKNOWN, Rulebook, without_undo, worst
from opx.text.procedures.rules import Arguments, Program, Programs, Rule, by_word
from opx.text.procedures.shell import MAX_DEPTH, ShellError, Simple, split

SECTION = "procedures"
MAX_LENGTH = 10_000
"""Characters of a command that is classified; longer ones are scripts, whose effect is unknown or destructive."""

_NOWHERE = MAX_LENGTH
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=|\$\w+=\Z")
_HASH = re.compile(r"@\{\s*(?:\w+\s*=\s*(?:'[^']*'|\"[^\"$]*\"|-?\d+\b|\$\w+)[\s;]*)*\}")
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
_SSM_COMMANDS = re.compile(r"(?:^|[{\s,\"'])commands?\"?'?\s*[=:]")
_BEGINNING = re.compile(r"(?:[;&|\n])\s*((?:sudo\s+)?([a-z][\w.-]*))(?=\s)")
_DUMP = re.compile(
    r"dump|backup|restore|\.bak\b|\.(?:sql|cql|rdb)\.\w+|\b(?:zcat|gunzip|gzip|zstd|xzcat|bzcat|lz4|unzip)\b"
)
"""Matches a database dump as input of a client: it drops tables before it restores them."""


class _Input(Struct, frozen=True):
    """Standard input: its text, or `is_hidden` where that isn't known; `source` is its file, or what writes it."""

    text: str | None = None
    is_hidden: bool = False
    source: str = ""


_NO_INPUT = _Input()


class _Call(Struct, frozen=True):
    """A program with arguments. `raw` are its words as written, `before` those of wrappers around it."""

    argv: tuple[str, ...]
    raw: tuple[str, ...]
    before: tuple[str, ...] = ()
    stdin: _Input = _NO_INPUT
    depth: int = 0

    def after(self, at: int, *added: str) -> _Call:
        """The command that begins at one of the words."""
        before = (*self.before, *self.raw[:at])
        return replace(
            self, argv=(*self.argv[at:], *added), raw=(*self.raw[at:], *added), before=before, depth=self.depth + 1
        )


class EffectTable(Struct, frozen=True):
    """Immutable. `languages` are kinds of code by the language of a code block, `own` the installation's programs. Tables of
    one `version` classify alike."""

    rules: Rulebook
    languages: Mapping[str, str]
    version: str
    own: Mapping[str, Program] = field(default_factory=dict)

    def of_steps(self, steps: Sequence[Step]) -> StoredEffects:
        """The effects of all commands of steps."""
        found = (self.classify(command.text, command.language) for step in steps for command in step.commands)
        return StoredEffects(self.version, tuple(found))

    def classify(self, command: str, language: str = "") -> Classified:
        """The worst effect of a command, which may be a script, a statement of SQL or an HTTP request. Never raises."""
        if len(command) > MAX_LENGTH:
            return self.rules.scan(command)
        try:
            return self._code(command, self.languages.get(language.strip().lower(), "unknown"), _Input(), 0)
        except ShellError:
            return self.rules.scan(command)

    def _code(self, text: str, language: str, stdin: _Input, depth: int) -> Classified:
        kind = self.rules.sniffed(text) if language == "shell" else language
        found = self._of_language(text, kind, stdin, depth)
        return found if kind == "shell" else worst([found, *self._going_on_as_shell(text, depth)])

    def _going_on_as_shell(self, text: str, depth: int) -> list[Classified]:
        """The effects of text of another language that ends in shell: `SELECT 1; rm -rf x`."""
        rests = [text[match.start(1) :] for match in _BEGINNING.finditer(text) if match[2] in self.rules.programs]
        found = [self._shell(rest.partition("\n")[0], _Input(), depth + 1) for rest in rests[:MAX_DEPTH]]
        return [without_undo(one) for one in found if one.effect.severity > Effect.UNKNOWN.severity]

    def _of_language(self, text: str, kind: str, stdin: _Input, depth: int) -> Classified:
        if kind in ("shell", "powershell") and _EVALUATES.search(text) and _FETCHES.search(text):
            return _FOREIGN
        if kind == "shell":
            return self._shell(text, stdin, depth)
        if kind == "powershell":
            return self._shell(_as_shell(text), stdin, depth)
        if kind == "redis":
            return self._shell("\n".join(f"redis-cli {line}" for line in text.splitlines()), _Input(), depth)
        if kind == "sql":
            return self.rules.sql(text, lambda command: self._inner(command, "shell", depth))
        return self._remote_commands(text, depth) if kind == "ssm" else self.rules.read(text, kind)

    def _remote_commands(self, text: str, depth: int) -> Classified:
        """`commands=["df -h","uptime"]` of a session or command on instances."""
        named = _SSM_COMMANDS.search(text)
        if not named:
            return UNKNOWN if text.startswith(("file:", "$", "<", "{{")) else READ
        lines = re.sub(r"[\"']\s*,\s*[\"']", "\n", text[named.end() :].replace('\\"', '"').strip(" []{}"))
        found = self.rules.scan(text)
        return found if found is not UNKNOWN else self._inner(lines.strip("\"'"), "shell", depth)

    def _inner(self, text: str, language: str, depth: int, stdin: _Input = _NO_INPUT) -> Classified:
        """The effect of code within a command. It runs in another environment, where its inverse alone undoes nothing."""
        return without_undo(self._code(text, language, stdin, depth + 1))

    # -- shell

    def _shell(self, text: str, stdin: _Input, depth: int) -> Classified:
        script = split(text, depth)
        found: list[Classified] = []
        pipeline: list[Simple] = []
        for at, simple in enumerate(script.commands):
            pipeline = pipeline if simple.piped else []
            if _runs_foreign_code(simple, pipeline, script.substitutions):
                found.append(_FOREIGN)
            before = script.commands[at - 1] if at else None
            if _is_probe(before, simple):
                found.append(Classified(effect=Effect.REVERSIBLE, rule="touch and rm"))
            elif not simple.writes and self._is_put_back(simple.words, script.commands[at + 1 :]):
                found.append(Classified(effect=Effect.REVERSIBLE, rule=f"{simple.words[0]} and back"))
            else:
                found += self._simple(simple, _input_of(simple, pipeline, stdin), depth)
            pipeline.append(simple)
        if not found and not script.substitutions:
            return UNKNOWN
        found += [self._inner(inner, "shell", depth) for inner in script.substitutions]
        return worst(found) if len(script.commands) == 1 else without_undo(worst(found))

    def _simple(self, simple: Simple, stdin: _Input, depth: int) -> Iterator[Classified]:
        call = _Call(tuple(simple.words), tuple(simple.raw), stdin=stdin, depth=depth)
        writes_nothing = not simple.words
        for part in _parts(call):
            writes_nothing = _writes_nothing(part.argv)
            yield self._call(part)
        for operator, target in simple.writes:
            yield self._write(operator, target, is_truncation=writes_nothing)
        yield READ

    def _is_put_back(self, words: Sequence[str], later: Sequence[Simple]) -> bool:
        """True for `ip link set eth0 down` before `ip link set eth0 up`."""
        if not later:
            return False
        own = words[1:] if words[:1] == ["sudo"] else words
        program = self.rules.programs.get(own[0]) if own else None
        if program is None or not program.pairs or program.pairs[0] not in own:
            return False
        first, second = program.pairs
        back = [second if word == first else word for word in own]
        return any(other.words in (back, ["sudo", *back]) for other in later)

    def _write(self, operator: str, target: str, *, is_truncation: bool = False) -> Classified:
        """An output redirection. One that gets no output empties the file. `into`: a file or folder that is created."""
        if operator == ">&" and (target.isdigit() or target == "-"):
            return READ
        verb = operator if operator in (">>", "into") else "empty" if is_truncation else ">"
        is_local = not target.startswith(("/", "~", "$", "<", "{")) and ".." not in target
        found = self.rules.by_rules("redirection", [verb, "local" if is_local else "other", target])
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
        cmdlet = CMDLET.match(name)
        if program is None and cmdlet and cmdlet[1].lower() in self.rules.programs["cmdlet"].by_word:
            argv = ("cmdlet", cmdlet[1], cmdlet[2], *call.argv[1:])
            program, call = self.rules.programs["cmdlet"], replace(call, argv=argv, raw=())
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
        return self.rules.programs.get(base) or self.rules.programs.get(base.lower())

    def _expression(self, word: str) -> Classified:
        """PowerShell's `$_.Name`, or a number; anything else that is no known program is unknown."""
        return READ if re.match(r"(?:\$_(\.\w+)*|-?\d+)\Z", word) else UNKNOWN

    def _run(self, program: Program, call: _Call, found: Arguments) -> Classified | None:
        """The effect of the command that a wrapper runs, None if it runs none."""
        inner = [call.after(start).argv for start in _after_exec(call.argv) if program.name == "find"]
        if inner:
            calls = [_Call(argv, (), stdin=_Input(is_hidden=True), depth=call.depth + 1) for argv in map(_until, inner)]
            return worst([*(self._call(one) for one in calls if one.argv), self._decided(program, call, found)])
        start = _end_of_own(program, found) + 1
        if start > _NOWHERE:
            return None
        rule = program.rule(found)
        own = [self._inner(value, language, call.depth) for value, language in _codes(program, found)]
        if rule and (rule.options or (rule.words and not program.joins)):
            own.append(self.rules.guarded(program, rule, found))
        if program.joins or (len(call.argv) == start + 1 and " " in call.argv[start]):
            text = " ".join(call.argv[start:])
            return worst([self._inner(text, program.joins or "shell", call.depth, call.stdin), *own])
        replaced = program.name != "xargs" or found.values(("-I", "-i", "--replace"))
        parts = _parts(call.after(start) if replaced else call.after(start, "<arguments>"))
        ran = [self._call(part if replaced else replace(part, raw=())) for part in parts] or [READ]
        return worst([*ran, *own])

    def _decided(self, program: Program, call: _Call, found: Arguments) -> Classified:
        """The effect by the program's own rules, its code and standard input, and the files that it writes."""
        rule = program.rule(found)
        parts = [self._inner(value, language, call.depth) for value, language in _codes(program, found)]
        if not parts and program.reads_code(rule):
            parts += self._from_stdin(program.stdin, call)
        if program.http:
            parts += self.rules.http(program, found)
        is_download = bool(program.http)
        parts += [
            self._write(">", value)
            for value in found.values(program.writes)
            if value != "-" and (value[:1] in "/~." or not is_download)
        ]
        parts += [self._write("into", value) for value in found.values(program.fills) if value != "-"]
        if "*" in program.writes:
            operator = ">>" if found.values(("-a", "--append")) else ">"
            parts += [self._write(operator, word) for word in found.words]
        if not parts or rule is None or rule.options or rule.effect is not Effect.READ:
            undo = _undo(program, call, found, rule)
            parts.append(self.rules.guarded(program, rule, found, called=_base(call.argv[0]), undo=undo))
        return worst(parts)

    def _from_stdin(self, language: str, call: _Call) -> list[Classified]:
        if call.stdin.text is not None:
            return [self._inner(call.stdin.text, language, call.depth)]
        if language in ("sql", "mongo", "redis") and _DUMP.search(call.stdin.source):
            return [Classified(effect=Effect.DESTRUCTIVE, rule="restore of a dump")]
        return [self.rules.scan(call.stdin.source)] if call.stdin.is_hidden else []


def _input_of(simple: Simple, pipeline: Sequence[Simple], outer: _Input) -> _Input:
    """Standard input of a command, which the pipeline before it writes."""
    if simple.stdin is not None:
        return _Input(simple.stdin)
    if not simple.piped:
        return _Input(is_hidden=True, source=simple.reads_file) if simple.reads_file else outer
    first = pipeline[0].words if len(pipeline) == 1 else []
    if first[:1] in (["echo"], ["printf"]):
        return _Input(" ".join(word for word in first[1:] if not word.startswith("-")))
    if first == ["cat"] and pipeline[0].stdin is not None:
        return _Input(pipeline[0].stdin)
    return _Input(is_hidden=True, source=" ".join(word for one in pipeline for word in (*one.words, one.reads_file)))


_FOREIGN = Classified(effect=Effect.DESTRUCTIVE, rule=FOREIGN_CODE)
_FETCHES = re.compile(
    r"://|\b(?:curl|curlie|wget|aria2c|lynx|iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring|nc|ncat|netcat|socat"
    r"|base64|base32|xxd)\b",
    re.IGNORECASE,
)
"""Commands whose output comes from an address, or is decoded."""
_EVALUATES = re.compile(r"\b(?:iex|invoke-expression)\b", re.IGNORECASE)
_INTERPRETER = re.compile(
    r"(?:.*/)?(?:(?:ba|z|k|da|a|fi|c|tc|rba)?sh|python[\d.]*|perl|ruby|node|php|lua|deno|bun|pwsh|powershell|eval|source)\Z|\.\Z"
)
_WRAPPER = re.compile(r"sudo|doas|env|nohup|exec|command|builtin|time|timeout|nice|stdbuf|setsid|-\S*|\d+\w?|\w+=.*")
_SUBSTITUTED = "$()"


def _runs_foreign_code(simple: Simple, pipeline: Sequence[Simple], substitutions: Sequence[str]) -> bool:
    """True for a command that executes what another one fetches or decodes: `curl … | sh`, `bash <(curl …)`,
    `sh -c "$(curl …)"`."""
    words = simple.words
    at = next((at for at, word in enumerate(words) if not _WRAPPER.fullmatch(word)), len(words))
    is_fetched = any(map(_FETCHES.search, substitutions))
    if words[at : at + 1] == [_SUBSTITUTED]:
        return is_fetched
    if at == len(words) or not _INTERPRETER.match(words[at]):
        return False
    given = list(takewhile(lambda word: word != "--", words[at + 1 :]))
    code = next((word for word in given if not word.startswith("-")), "")
    if _SUBSTITUTED in (code, simple.stdin):
        return is_fetched
    source = " ".join(word for one in pipeline for word in one.words)
    return (not code or "-s" in given or code == "/dev/stdin") and bool(_FETCHES.search(source))


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


def _is_probe(before: Simple | None, simple: Simple) -> bool:
    """True for `rm /data/probe` right behind `touch /data/probe`, which finds out whether a folder can be written to."""
    if before is None or before.writes or simple.writes:
        return False
    first, then = ([word for word in one.words if word not in ("sudo", "-f")] for one in (before, simple))
    is_name = len(first) == 2 and not re.search(r"[*?\[{<$]", first[1])
    return is_name and first[0] == "touch" and then == ["rm", first[1]]


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
    """Index of the command that a program runs, in the argument vector without the program's name."""
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
    if program.is_script:
        codes = [at for at, (name, _) in zip(found.options_at, found.options, strict=True) if name in program.code]
        end = min([end, *found.at[:1], *codes])
    for at, (name, value) in zip(found.options_at, found.options, strict=True):
        if at < end and name in program.harmless and value.lower() not in off:
            return True
    runs_others = program.runs or program.code or program.name == "find"
    return not runs_others and (argv[1:] == ("--version",) or (argv[-1] == "--help" and "--" not in argv))


def _undo(program: Program, call: _Call, found: Arguments, rule: Rule | None) -> str:
    """The command that reverts the rule's command, "" if none is known."""
    if rule is None or not rule.inverse or not call.raw:
        return ""
    words = list(call.raw[1:])
    own = found.at[: len(rule.words)]
    plain = [word for word in rule.inverse if not word.startswith("-")]
    options = [word for word in rule.inverse if word.startswith("-")]
    inverse = [
        pattern.inverted(words[at], word) for pattern, at, word in zip(rule.words, own, plain, strict=False)
    ] + plain[len(own) :]
    where = _places(call, program, found, program.where)
    if (len(plain), len(options)) != (len(rule.words), len(rule.options)):
        return " ".join((*call.before, call.raw[0], *(words[at] for at in where), *inverse, *options))
    for at, word in zip(own, inverse, strict=True):
        words[at] = word
    for (names, _), option in zip(rule.options, options, strict=True):
        if "=" not in option:
            words = [option if word in names else word for word in words]
        for number, at in enumerate(_places(call, program, found, names) if "=" in option else ()):
            words[at] = "" if number else option
    last = own[-1] if own else -1
    kept = [word for at, word in enumerate(words) if rule.keeps_options or at <= last or at in found.at or at in where]
    return " ".join((*call.before, call.raw[0], *filter(None, kept)))


def _places(call: _Call, program: Program, found: Arguments, names: Container[str]) -> list[int]:
    """Indexes of options with these names and of their values in the argument vector without the program's name."""
    places = []
    for at, (name, _) in zip(found.options_at, found.options, strict=True):
        if name in names:
            is_apart = name in program.values and call.argv[at + 1] == name
            places += [at, at + 1] if is_apart else [at]
    return [at for at in places if at < len(call.raw) - 1]


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
    own = {name: Program(name, by_word=by_word(many)) for name, many in rules.items()}
    return replace(_packaged(), own=own, version=stable_hash(_packaged().version, to_json(extra)))


@cache
def _packaged() -> EffectTable:
    data = json.loads(Path(__file__).with_suffix(".json").read_bytes())  # of the .yaml beside it, by .ci/effects.py
    flags = frozenset(data["flags"].split())
    stated: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for names, given in data["programs"].items():
        stated |= dict.fromkeys([*names.split(), *given.get("also", "").split()], (names.split()[0], given))
    alarms = frozenset(data["alarms"].split())
    languages = {name: kind for kind, names in data["languages"].items() for name in names.split()}
    verbs = frozenset(data["verbs"].split())
    rules = Rulebook(Programs(stated, flags), alarms, verbs, alarms | frozenset(data["scanned"].split()))
    return EffectTable(rules, {"": "shell", **languages}, data["version"])


# -- the section of knowledge.yaml


def read_effect_table(path: Path | None = None) -> EffectTable:
    """The packaged table with the file's rules. Raises `KnowledgeConfigError`."""
    return effect_table(read_effects(path))


def read_effects(path: Path | None = None) -> dict[str, Classified]:
    """The file's effects of an installation's own commands, by how these begin. Raises `KnowledgeConfigError`."""
    section = read_section(SECTION, path)
    commands = section.fields(optional=("commands",)).get("commands") if section else None
    return {beginning: _effect_of(entry) for beginning, entry in commands.entries().items()} if commands else {}


def _effect_of(entry: Marked) -> Classified:
    """`destructive`, or `{effect: reversible, blast: service, undo: acmectl failback}`."""
    if entry.is_scalar:
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
