"""Reads statements, requests and code by the rules of the table: languages other than shell.

Each is read by the words that decide in it: a statement of SQL by its keywords and functions, a request by method and
address, code by the names that it calls. Quoted text is data, unless the language runs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from opx.domain.procedures import Classified, Effect
from opx.text.procedures.rules import Arguments, Program, Rule, alarming
from opx.text.procedures.shell import ShellError

READ = Classified(effect=Effect.READ)
UNKNOWN = Classified()
CMDLET = re.compile(r"([A-Za-z]+)-([A-Za-z]\w*)\Z")
_BLOCK = re.compile(r"\|\s*(?:%|\?|foreach(?:-object)?|where(?:-object)?)\s*\{", re.IGNORECASE)
_INSIGHTS = re.compile(r"\s*(?:fields|filter|stats|parse|sort|display|dedup|limit)\b", re.IGNORECASE)
_REQUEST = re.compile(r"^(GET|HEAD|POST|PUT|PATCH|DELETE)[ \t]+([/_]\S*|https?:\S+)", re.MULTILINE)
_BEGINNINGS = {
    "http": _REQUEST,
    "mongo": re.compile(r"(?:db|rs|sh)\.\w"),
    "sql": re.compile(r"\\(?!(?:rm|cp|mv)\s)[a-z!?]"),
}
_PLAIN_BODIES = ("/_search", "_settings", "_cluster/settings", "_mapping")
_BODY = re.compile(r"\s*(?:[\[{}\]\"]|[\w-]+:|#|HTTP/|\Z)")
_MONGO_NAME = re.compile(r"\.([a-z]\w*)(?=\s*[,)])")
_MONGO_FORCE = re.compile(r"reconfig.*\bforce[\"']?\s*:\s*true", re.IGNORECASE | re.DOTALL)
_MONGO_CALL = re.compile(r"(\w+)\s*\(\s*(?:\{\s*[\"']?(\w+))?")
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.){1,300}/I?)"
_SED_COMMAND = (
    r"(?:[pdqQ=nNhHgGxDPl]|s([/|#,@:!])(?:(?!\1)[^\\\n]|\\.){0,300}\1(?:(?!\1)[^\\\n]|\\.){0,300}\1[gIip\d]*)"
)
_SED = re.compile(rf"\s*(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?\s*!?\s*{_SED_COMMAND}\s*;?\s*\Z")
"""One command of sed that only prints. Several, and those that write files or run programs, are unknown."""
_AWK_WRITES = re.compile(r"system|getline|print[^;}\n]*[>|]|@load|@include|\|&")
_PYTHON_CALL = re.compile(r"(?:([A-Za-z_]\w*)|[\])])\s*\(|\bimport\s+([\w., ]+)|\bfrom\s+(\w+)|(__\w+)")
_PYTHON_TEXT = re.compile(r"'[^'\\\n]*'|\"[^\"\\\n]*\"")
_HIDDEN_IN_SQL = re.compile(r"\\['\"]|/\*!|/\*\+")
_SQL_DATA = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`", re.DOTALL)
_SQL_META = re.compile(r"^[ \t]*\\([a-zA-Z!?+]+)(?![gG]\b)([^\n]*)", re.MULTILINE)
_SQL_END = re.compile(r";|\\[gGx]\w*|^[ \t]*GO[ \t]*$", re.MULTILINE)
_SQL_WORD = re.compile(r"[\w.$@#]+")
_SQL_CALL = re.compile(r"([\w.]+)\s*\(")
_SQL_QUOTED_CALL = re.compile(r"(?:\.\s*|\bselect\s+)''\s*\(", re.IGNORECASE)
_SQL_DYNAMIC = re.compile(r"\b(?:exec|execute|immediate|prepare|sp_executesql)\b", re.IGNORECASE)
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


class Rulebook(Struct, frozen=True):
    """The table's programs. `alarms` are words of destructive options and subcommands, `verbs` of changing ones, `scanned` of
    text that can't be split."""

    programs: Mapping[str, Program]
    alarms: frozenset[str]
    verbs: frozenset[str]
    scanned: frozenset[str]

    def read(self, text: str, kind: str) -> Classified:
        """The effect of code of a language, by words alone where that isn't known."""
        reader = _READERS.get(kind)
        return reader(self, text) if reader else self.scan(text)

    def scan(self, text: str) -> Classified:
        return Classified(effect=Effect.DESTRUCTIVE, rule="scan") if alarming([text], self.scanned) else UNKNOWN

    def guarded(
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
            return UNKNOWN
        name = f"{called or program.name} {rule.name}".strip()
        return Classified(effect=rule.effect, blast=rule.blast, undo=undo, rule=name)

    def by_rules(self, name: str, words: Sequence[str], *, whole: str = "") -> Classified:
        """The effect by a program's rules; with the inverse of text that is these words and nothing else."""
        program = self.programs[name]
        found = Arguments([word.lower() for word in words] if program.folds else list(words))
        rule = program.rule(found)
        is_whole = rule is not None and rule.inverse and whole.split() == list(words)
        undo = " ".join((*rule.inverse, *words[len(rule.words) :])) + ";" if rule and is_whole else ""
        return self.guarded(program, rule, found, undo=undo)

    def _query(self, text: str) -> Classified:
        found = self.scan(text)
        if found is UNKNOWN and not alarming([text], self.verbs):
            return Classified(effect=Effect.READ, rule="query")
        return found

    def _sent(self, text: str) -> Classified:
        """Lines that are sent to a port or socket."""
        lines = [line.split() for line in re.split(r"\n|\\r|\\n|;", text)]
        return worst([self.by_rules("port", line) for line in lines if line] or [READ])

    def sniffed(self, text: str) -> str:
        """The language of text that is called shell, or nothing at all."""
        lines = (line.strip() for line in text.splitlines())
        line = next((line for line in lines if line and not line.startswith(("--", "#", "//"))), "")
        first, _, rest = line.partition(" ")
        first = first.strip("(;").partition("(")[0]
        is_statement = not rest.lstrip().startswith(("-", "=", "/"))
        cmdlet = CMDLET.match(first)
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

    def http(self, program: Program, found: Arguments) -> list[Classified]:
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
            self.scan(line) for line in rest.splitlines() if not _BODY.match(line) or alarming([line], self.alarms)
        ]
        return worst([*requests, *others] or [UNKNOWN])

    def _request(self, method: str, url: str, body: Sequence[str]) -> Classified:
        found = self.by_rules("http", [method, url])
        segments = set(re.split(r"[/?&=:]", url.lower().partition("://")[2] or url.lower())[1:])
        is_mild = found.effect in (Effect.READ, Effect.REVERSIBLE) and not any(part in url for part in _PLAIN_BODIES)
        if is_mild and (not self.alarms.isdisjoint(segments) or (method != "get" and alarming(body, self.alarms))):
            return Classified(effect=Effect.DESTRUCTIVE, rule="http *")
        return found

    def sql(self, text: str, shell: Callable[[str], Classified] | None = None) -> Classified:
        if _HIDDEN_IN_SQL.search(text):
            raise ShellError("a quote or comment that dialects read differently")
        found = []
        for name, rest in _SQL_META.findall(text):
            found.append(shell(rest) if shell and name == "!" else self._meta(name, rest))
        bare = _SQL_DATA.sub(" '' ", _SQL_META.sub(";", text))
        if "'" in bare.replace("''", "") or '"' in bare or "`" in bare:
            raise ShellError("a quote is not closed")
        found += [self._statement(part) for part in _SQL_END.split(bare) if _SQL_WORD.search(part)]
        if _SQL_DYNAMIC.search(bare) or r"\gexec" in text:
            found.append(self.scan(text))
        return worst(found or [READ])

    def _meta(self, name: str, rest: str) -> Classified:
        if "`" in rest:
            raise ShellError("psql runs what is in back-ticks")
        return self.by_rules("psql-meta", [name, *rest.split()])

    def _statement(self, text: str) -> Classified:
        found = self.by_rules("sql", _SQL_WORD.findall(text), whole=text)
        if found.effect.severity > Effect.UNKNOWN.severity:
            return found
        calls = [name for name in _SQL_CALL.findall(text) if name.lower() not in self.programs["sql"].flags]
        if alarming(calls, self.alarms):
            return Classified(effect=Effect.DESTRUCTIVE, rule="sql function")
        if found.effect is Effect.UNKNOWN:
            return found
        return UNKNOWN if alarming(calls, self.verbs) or _SQL_QUOTED_CALL.search(text) else found

    def _mongo(self, text: str) -> Classified:
        calls = [[name, argument] for name, argument in _MONGO_CALL.findall(text)]
        if "$out" in text or "$merge" in text:
            calls.append(["$out", ""])
        if "](" in text or alarming(_MONGO_NAME.findall(text), self.alarms):
            calls.append(["<any>", ""])
        if _MONGO_FORCE.search(text):
            calls.append(["reconfig", "force"])
        if not calls:
            return READ if re.match(r"\s*(?:show|use|db\b|exit|quit)", text) else self.scan(text)
        return worst([self.by_rules("mongo-method", call) for call in calls])

    def _python(self, text: str) -> Classified:
        """Python by the names that it calls and imports."""
        bare = _PYTHON_TEXT.sub("''", text)
        names = [name for match in _PYTHON_CALL.finditer(bare) for name in match.groups("") if name.strip()]
        words = [word for name in names for word in re.split(r"[., ]+", name) if word]
        found = worst([READ, *(self.by_rules("python-name", [word]) for word in words)])
        return self.scan(text) if found.effect is Effect.UNKNOWN else found

    def _insights(self, text: str) -> Classified:
        """A query of CloudWatch Insights, or of Athena and others, which is SQL."""
        return READ if _INSIGHTS.match(text) else self.sql(text)

    def _sed(self, text: str) -> Classified:
        return READ if _SED.match(text) else self.scan(text)

    def _awk(self, text: str) -> Classified:
        return self.scan(text) if _AWK_WRITES.search(text) else READ

    def _promql(self, _: str) -> Classified:
        return Classified(effect=Effect.READ, rule="query")


_READERS: Mapping[str, Callable[[Rulebook, str], Classified]] = {
    "mongo": Rulebook._mongo,
    "http": Rulebook._requests,
    "promql": Rulebook._promql,
    "query": Rulebook._query,
    "insights": Rulebook._insights,
    "python": Rulebook._python,
    "sed": Rulebook._sed,
    "awk": Rulebook._awk,
    "port": Rulebook._sent,
}


def worst(found: Sequence[Classified]) -> Classified:
    """The worst of several effects. Only a command that changes something alone can be undone."""
    worst = max(found, key=lambda one: one.effect.severity)
    if worst.effect is Effect.READ:
        return next((one for one in found if one.rule), worst)
    changes = sum(one.effect is not Effect.READ for one in found)
    return worst if changes == 1 and worst.effect is Effect.REVERSIBLE else without_undo(worst)


def without_undo(found: Classified) -> Classified:
    return Classified(effect=found.effect, blast=found.blast, rule=found.rule) if found.undo else found
