"""Fills the commands of steps with an alert's labels, in the procedure's text, and annotates each with its effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from opx.domain.handover import FilledCommand, ShownCommand, StepView
from opx.domain.record import replace
from opx.text.procedures.alerts import ASSIGNMENT, filled, label_for


def filled_commands(step: StepView, labels: Mapping[str, str], assigned: Collection[str]) -> Iterator[FilledCommand]:
    """The commands of a step with labels filled in, as `opx.text.procedures.alerts.filled` does it."""
    for command in step.commands:
        text, left = filled(command, labels, assigned)
        yield FilledCommand(
            text=text,
            language=command.language,
            effect=command.effect,
            blast=command.blast,
            undo=command.undo,
            placeholders=left,
            reason=command.reason,
            step=step.name,
            as_written=command.text if text != command.text else "",
            differs=tuple(differing(command, labels)),
        )


# -- literals that contradict a label

_OPTION = re.compile(
    r"(?<!\S)(--(?:kube-)?context|--namespace|--region|--cluster(?:-name)?|--host(?:name)?|--node(?:-name)?|-[nh])(?:=|\s+)"
    r"([\"']?)([\w.:/@-]+)\2(?=[\s;|&)]|\Z)"
)
_SET = re.compile(ASSIGNMENT.pattern.replace(r"(?=\S)", r"([\"']?)([\w.:/@-]+)\2(?=[\s;|&)]|\Z)"))
_SEPARATOR = re.compile(r"[;|&\n(]+")
_PROGRAM = re.compile(r"\s*(?:sudo\s+)?(?:\w+=\S*\s+)*([\w./-]+)")
_OF_NAMESPACES = frozenset(("kubectl", "oc", "helm", "stern", "istioctl", "linkerd", "velero", "flux", "k9s"))
_OF_HOSTS = frozenset(
    ("psql", "pg_dump", "pg_isready", "mysql", "mysqladmin", "mysqldump", "redis-cli", "mongosh", "mongo")
)
_LABELS = {"kube-context": "context", "cluster-name": "cluster", "node-name": "node", "hostname": "host"}
_SYSTEM = re.compile(r"kube-|.*-system\Z|default\Z|monitoring\Z")
"""Namespaces that commands inspect whatever the alert is about."""


def differing(command: ShownCommand, labels: Mapping[str, str]) -> Iterator[str]:
    """Literals of a command that a label of the alert contradicts: `-n prod; the alert says namespace=web`.

    Compared are options of the same kind as a label (namespace, context, cluster, region, host, node), and variables that
    the command sets.
    """
    for name, _, value in _SET.findall(command.text):
        label = label_for(name, labels) if value not in command.placeholders else None
        if label and not _is_same(label[0], value, label[1]):
            yield f"{name}={value}; the alert says {label[0]}={label[1]}"
    for part in _SEPARATOR.split(command.text):
        begins = _PROGRAM.match(part)
        program = begins[1].rpartition("/")[2] if begins else ""
        for option, _, value in _OPTION.findall(part):
            name = _label_of(option, program)
            label = label_for(name, labels) if name and value not in command.placeholders else None
            if label and not _is_same(name, value, label[1]):
                yield f"{option} {value}; the alert says {label[0]}={label[1]}"


def _label_of(option: str, program: str) -> str:
    """The kind of thing that an option of a program names; "" for other options: `-n` of tail counts lines."""
    name = {"-n": "namespace", "-h": "host"}.get(option, option.removeprefix("--"))
    if (name == "namespace" and program not in _OF_NAMESPACES) or (option == "-h" and program not in _OF_HOSTS):
        return ""
    return _LABELS.get(name, name)


def _is_same(name: str, value: str, label: str) -> bool:
    """True if a literal agrees with a label. Contexts, clusters, regions and hosts are also written longer or shorter."""
    one, other = value.casefold(), label.casefold()
    if name == "namespace":
        return one == other or bool(_SYSTEM.match(one))
    if name in ("host", "node"):
        return one in ("localhost", "127.0.0.1") or one.partition(".")[0] == other.partition(".")[0]
    return one in other or other in one


# -- commands within the text

_FENCE = re.compile(r"[\s>]*(?:(?:[-*+]|\d{1,3}[.)])\s+)*(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+]\s|\d{1,3}[.)]\s|#)")
_INDENTATION = re.compile(r"\n[^\S\n]*(?:>[^\S\n]?)?")


class Placed(Struct, frozen=True):
    """Text with its commands filled in. `before` has, by line, the indexes of the commands to annotate before it; `missing`
    are the indexes of commands that the text doesn't contain."""

    commands: Sequence[FilledCommand]
    lines: list[str]
    before: dict[int, list[int]]
    missing: list[int]

    def annotated(self, lines_of: Callable[[Sequence[int]], Sequence[str]]) -> Iterator[str]:
        """The lines, with annotations of its commands before each block, indented like it. Commands of a block that differ
        only in their text share an annotation."""
        for number, line in enumerate(self.lines):
            indent = line[: len(line) - len(line.lstrip())]
            for group in self._alike(self.before.get(number, ())):
                yield from (indent + one for one in lines_of(group))
            yield line

    def _alike(self, indexes: Sequence[int]) -> Iterable[list[int]]:
        groups: dict[FilledCommand, list[int]] = {}
        for at in indexes:
            groups.setdefault(replace(self.commands[at], text="", language=""), []).append(at)
        return groups.values()


def placed(text: str, commands: Sequence[FilledCommand]) -> Placed:
    """Replaces each occurrence of the commands in the text by the filled command."""
    written = [command.as_written or command.text for command in commands]
    longest_first = sorted(range(len(written)), key=lambda at: -len(written[at]))
    pattern = "|".join(f"(?P<c{at}>{_pattern(written[at])})" for at in longest_first)
    pieces: list[str] = []
    begins: dict[int, int] = {}
    done = 0
    for match in re.finditer(pattern, text) if pattern else ():
        at = int(str(match.lastgroup)[1:])
        begins.setdefault(at, text.count("\n", 0, match.start()))
        pieces += [text[done : match.start()], _replaced(match[0], commands[at])]
        done = match.end()
    lines = "".join([*pieces, text[done:]]).split("\n")
    if len(lines) != text.count("\n") + 1:  # a code span was wrapped, and isn't any more
        begins = {at: _line_of(lines, commands[at].text, line) for at, line in begins.items()}
    opens = _openings(lines)
    before: dict[int, list[int]] = {}
    for at in sorted(begins):
        before.setdefault(opens[begins[at]], []).append(at)
    return Placed(commands, lines, before, [at for at in range(len(commands)) if at not in begins])


def _pattern(command: str) -> str:
    """A pattern for a command whose lines may be indented, and wrapped in a code span."""
    parts = re.split(r"(\n[^\S\n]*| )", command)
    found = [
        _INDENTATION.pattern if part[:1] == "\n" else r"(?: |\n[^\S\n]*)" if part == " " else re.escape(part)
        for part in parts
    ]
    return r"(?<![\w-])" + "".join(found) + r"(?![\w-])"


def _replaced(found: str, command: FilledCommand) -> str:
    """The filled command with the indentation of the occurrence."""
    if not command.as_written:
        return found
    first, *rest = command.text.split("\n")
    indents = _INDENTATION.findall(found) if rest else []
    return first + "".join(indent + line.lstrip() for indent, line in zip(indents, rest, strict=True))


def _line_of(lines: Sequence[str], command: str, most: int) -> int:
    first = command.partition("\n")[0]
    return max((at for at, line in enumerate(lines[: most + 1]) if first in line), default=0)


def _openings(lines: Sequence[str]) -> list[int]:
    """The first line of each line's block: the fence above it for code, else the beginning of its paragraph."""
    found: list[int] = []
    fence, opened = "", 0
    for at, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            found.append(opened)
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence, opened = mark[1], at
            found.append(at)
        elif (
            at and line.strip() and lines[at - 1].strip() and not _ITEM.match(line) and not _FENCE.match(lines[at - 1])
        ):
            found.append(found[-1])
        else:
            found.append(at)
    return found


# -- annotated text of a procedure


def with_commands(
    content: str,
    first_lines: Mapping[int, str],
    steps: Sequence[StepView],
    count: int,
    commands: Sequence[FilledCommand],
) -> str:
    """A procedure's text with inserted lines in brackets: before each step its effect and its author's warnings, before
    each command its effect, its inverse, and its original form where labels were filled in. `first_lines` are the lines
    that steps begin with, by number."""
    lines = content.split("\n")
    starts: list[tuple[int, StepView]] = []
    for step in steps:
        cursor = starts[-1][0] + 1 if starts else 0
        line = first_lines.get(step.number, "")
        at = next((at for at in range(cursor, len(lines)) if line and lines[at] == line), None)
        if at is not None:
            starts.append((_above_warnings(lines, at), step))
    if not starts:
        return content
    ends = [*(at for at, _ in starts[1:]), len(lines)]
    shown = lines[: starts[0][0]]
    for (at, step), end in zip(starts, ends, strict=True):
        own = [one for one in commands if one.step == step.name]
        shown += _step_lines(step, count, own, "\n".join(lines[at:end]))
    return "\n".join(shown)


def _above_warnings(lines: Sequence[str], at: int) -> int:
    while at and lines[at - 1].startswith("[Warning: "):
        at -= 1
    return at


def _step_lines(step: StepView, count: int, commands: Sequence[FilledCommand], text: str) -> Iterator[str]:
    found = placed(text, commands)
    effect = f": {step.effect}" if commands or step.is_classed else ""
    yield f"[Step {step.name} of {count}{effect}]"
    yield from (f"[Caution: {warning.replace('**', '')}]" for warning in step.warnings)
    if step.approval:
        yield f"[Approval: {step.approval}]"
    for at in found.missing:
        yield from _command_lines([at], commands)
        yield commands[at].text
    yield from found.annotated(lambda indexes: _command_lines(indexes, commands))


def _command_lines(indexes: Sequence[int], commands: Sequence[FilledCommand]) -> list[str]:
    command = commands[indexes[0]]
    facts = [
        command.harm + (f", reaches {command.blast}" if command.blast else ""),
        f"undo: {command.undo}" if command.undo else "",
        f"still to be filled in: {', '.join(command.placeholders)}" if command.placeholders else "",
        f"as written: {' '.join(command.as_written.split())}" if command.as_written else "",
        *(f"note: the example has {one}" for one in command.differs),
    ]
    return [f"[{numbered(indexes, commands)}{'; '.join(filter(None, facts))}]"]


def numbered(indexes: Sequence[int], commands: Sequence[FilledCommand]) -> str:
    """`Command 2: ` or `Commands 1, 2: `; for a step's only command `Command: `."""
    if len(commands) == 1:
        return "Command: "
    return f"Command{'s' * (len(indexes) > 1)} {', '.join(str(at + 1) for at in indexes)}: "
