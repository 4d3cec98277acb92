"""`opx do`: steps through the procedure for an alert in the terminal. Nothing is ever executed."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import click

from opx.domain.handover import FilledCommand, NextCall, StepView
from opx.domain.outcomes import MAX_STEP, OutcomeReport, OutcomeResult
from opx.domain.procedures import Effect
from opx.domain.queries import MAX_BUDGET, MAX_QUERY_CHARACTERS, QueryConfig
from opx.domain.record import replace
from opx.edges.calling import OperationClient, record_of
from opx.edges.cli.hits import DESTROYS, MEANS, shorten, untrusted_line
from opx.edges.cli.output import FAILED, NO_ANSWER, CommandFailed, Screen, plural, print_lines, printable, safe, warn
from opx.edges.cli.session import Session, pass_session
from opx.errors import DocumentNotFoundError, InvalidInputError, OpxError, ReceiptNotFoundError
from opx.hygiene.untrusted import one_line
from opx.operations.outcomes import RecordOutcome, record_outcome
from opx.operations.procedures import FindProcedure, Procedure, find_procedure
from opx.operations.reading import DocumentPart, ReadDocument, read_document
from opx.operations.search import MAX_QUESTION, Query, query
from opx.text.procedures.alerts import assigned_in, given_labels
from opx.text.procedures.filling import filled_commands, numbered, placed
from opx.text.procedures.layout import ALL, STEPS

_NO_UNDO = "undo: none can be derived from the command; note the state before"
_KEYS = "[n]ext  [b]ack  NUMBER  [y] copy  [l]ist  [o]utcome  [q]uit"
_RESULTS = {"r": OutcomeResult.RESOLVED, "n": OutcomeResult.NO_EFFECT, "w": OutcomeResult.MADE_WORSE}
_INDENT = "  "
_OTHERS_BELOW = 0.9
"""Confidence below which other procedures are listed."""
_SHORT = 160
"""Most characters of a line of notes above a command."""
NO_RECEIPT = "0" * 32
"""Receipt id that no answer has: for a document named without a search, and for systems without an audit log. Recording an
outcome then searches within the document."""


@click.command("do")
@click.argument("alert", nargs=-1, required=True, metavar="ALERT...")
@click.option("--label", "pairs", multiple=True, metavar="NAME=VALUE", help="A label of the alert; may be repeated.")
@click.option(
    "--labels", "labels", default="", metavar="JSON", help="Labels as JSON, or as `namespace=prod, pod=web-1`."
)
@click.option("--step", "step", default="", metavar="N", help="Begin at this step.")
@click.option("--print", "at_once", is_flag=True, help="Print the whole procedure, without prompting for keys.")
@pass_session
def do_command(
    session: Session, /, alert: tuple[str, ...], *, pairs: tuple[str, ...], labels: str, step: str, at_once: bool
) -> None:
    """Step through the procedure for ALERT: its name, a line with its labels, or its text; `-` reads the alert from standard
    input, as it was sent. The path, title or id of a document selects that document. Labels fill the placeholders of
    commands. No command is ever executed.

    \b
    opx do KafkaLag --label namespace=prod
    opx do runbooks/kafka-lag.md --label namespace=prod
    opx do 'HighLatency{service="checkout"}' --step 3
    pbpaste | opx do -

    Keys: n or Enter goes on, b goes back, a number goes to that step (4, or #4 as steps are listed). y copies a
    command, l lists the steps, o records the outcome of this step, q quits. If the output isn't a terminal, the whole
    procedure is printed.

    Exit codes: 0 a document was found, with or without steps; 1 no document was found; 2 wrong usage or another error.
    """
    request = FindProcedure(alert=_alert(alert), labels=_labels(pairs, labels))
    procedure: Procedure = record_of(session.call(find_procedure, request))
    if procedure.document is None:
        print_lines(_nothing_lines(procedure))
        raise click.exceptions.Exit(NO_ANSWER)
    walk = StepWalk(session.client, procedure, procedure.document)
    begin, notes = walk.find_step(step) if step else (0, ())
    warn(*map(printable, notes))
    print_lines(head_lines(walk))
    if not walk.steps:
        print_lines(_text_lines(walk.text()))
    elif at_once or not _is_terminal():
        for at in range(begin, len(walk.steps)):
            print_lines(step_lines(walk, at))
    else:
        Keys(walk, begin).run()


def _is_terminal() -> bool:
    return Screen.current().is_terminal


def _alert(words: Sequence[str]) -> str:
    text = sys.stdin.read() if tuple(words) == ("-",) else " ".join(words)
    text = text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8").strip()
    if not text:
        raise InvalidInputError("the alert is empty: opx do AlertName")
    if len(text) > MAX_QUESTION:
        warn(f"the alert has {len(text):,} characters; only the first {MAX_QUESTION:,} are used")
    return text[:MAX_QUESTION]


def _labels(pairs: Sequence[str], labels: str) -> str:
    """All labels as JSON; those of `--label` override those of `--labels`."""
    if not pairs:
        return labels
    given = given_labels(labels) if labels else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (equals and name.strip()):
            raise InvalidInputError(f"--label takes NAME=VALUE, not {pair[:60]!r}")
        given[name.strip()] = value
    return json.dumps(given)


# -- the procedure


@dataclass
class StepWalk:
    """Steps of a procedure. The text of each is read when it is shown."""

    client: OperationClient
    procedure: Procedure
    document: DocumentPart
    _parts: dict[int, DocumentPart] = field(default_factory=dict)

    @cached_property
    def steps(self) -> tuple[StepView, ...]:
        """All steps in order. Raises `OpxError` if the document was replaced meanwhile."""
        found: dict[int, StepView] = {}
        for page in self._pages(STEPS) if self.document.step_count else ():
            found |= {step.number: step for step in page.steps if step.shown or step.number not in found}
        return tuple(found[number] for number in sorted(found))

    def text(self) -> str:
        """The whole document."""
        return "\n\n".join(page.content for page in self._pages(ALL))

    def part(self, at: int) -> DocumentPart:
        """The text of a step with its warnings and details."""
        if at not in self._parts:
            pages = list(self._pages(f"step {self.steps[at].name}"))
            self._parts[at] = replace(pages[0], content="\n\n".join(page.content for page in pages))
        return self._parts[at]

    def view(self, at: int) -> StepView:
        """A step with its details, which are only returned with its text."""
        number = self.steps[at].number
        return next((step for step in self.part(at).steps if step.number == number), self.steps[at])

    def commands(self, at: int) -> list[FilledCommand]:
        return list(filled_commands(self.steps[at], self.procedure.labels, self._assigned))

    @cached_property
    def _assigned(self) -> frozenset[str]:
        return assigned_in(command for step in self.steps for command in step.commands)

    def find_step(self, name: str) -> tuple[int, tuple[str, ...]]:
        """The index of the step with a name, resolved as `read_document` does, and notes if the name is ambiguous. Raises
        `InvalidInputError`."""
        names = [step.name for step in self.steps]
        try:
            part = self._read(f"step {name.strip().casefold().removeprefix('step').strip()}")
            at = names.index(part.part.removeprefix("step "))
        except (InvalidInputError, ValueError):
            known = ", ".join(names[:40])
            raise InvalidInputError(f"there is no step {name[:40]!r}; the {len(names)} steps are: {known}") from None
        return at, part.notes

    def _pages(self, part: str) -> Iterator[DocumentPart]:
        page = self._read(part)
        yield page
        while page.next:
            page = self._read(part, int(page.next[0].arguments["after"]))
            yield page

    def _read(self, part: str, after: int = 0) -> DocumentPart:
        request = ReadDocument(self.document.document_id, part, MAX_BUDGET, after)
        found: DocumentPart = record_of(self.client.call(read_document, request))
        if found.document_id != self.document.document_id:
            raise OpxError("the document was replaced by a newer version meanwhile: run the command again")
        return found


# -- rendering


def head_lines(walk: StepWalk) -> Iterator[str]:
    """The procedure's name, its source, and how it was found."""
    part, found, screen = walk.document, walk.procedure, Screen.current()
    yield click.style(printable(part.title), bold=True)
    if part.untrusted:
        yield click.style(untrusted_line(part.tier, part.category), fg="yellow")
    owner = f", owner {printable(part.owner)}" if part.owner else ""
    yield f"{printable(part.source)}  updated {printable(part.updated[:10])}, version {part.version}{owner}"
    yield f"{printable(found.found_by)} (confidence {found.confidence:.2f})"
    if found.labels:
        yield "labels: " + ", ".join(printable(f"{name}={value}") for name, value in found.labels.items())
    yield from (click.style(f"Note: {printable(note)}", dim=True) for note in (*found.notes, *part.notes))
    if found.confidence < _OTHERS_BELOW and found.others:
        yield screen.styled("Other candidates (`opx do` accepts an id, too):", "caution")
        yield from (f"{_INDENT}{_other(one)}" for one in found.others)
    if walk.steps:
        effects = Counter(step.effect for step in walk.steps if step.is_classed)
        counts = ", ".join(screen.styled(f"{count} {effect}", effect) for effect, count in effects.items())
        if others := len(walk.steps) - effects.total():
            counts += f", {others} without commands" if counts else ""
        yield from ("", plural(len(walk.steps), "step") + (f": {counts}" if counts else ""))
    else:
        yield from ("", "The document has no steps.")


def step_lines(walk: StepWalk, at: int) -> Iterator[str]:
    """The text before a step under its headings, then the step: warnings first, then its text with labels filled in, each
    command below its effect."""
    step, part, commands = walk.view(at), walk.part(at), walk.commands(at)
    lead, own = _lead_and_own(part, step)
    text = placed(own, commands)
    first = next(filter(str.strip, text.lines), "")
    title = "" if _bare(step.title) in _bare(first) else f": {printable(step.title)}"
    if any(line.strip() and not line.startswith("#") for line in lead):
        yield ""
        yield from _with_annotations("\n".join(lead).strip("\n").split("\n"))
    elif step.section and (not at or walk.steps[at - 1].section != step.section):
        yield from ("", Screen.current().styled(f"## {printable(step.section)}", "bold"))
    yield from ("", click.style(f"Step {step.name} of {len(walk.steps)}{title}", bold=True))
    yield from (_warning(text) for text in (*step.warnings, *part.warnings))
    if step.effect is Effect.DESTRUCTIVE:
        yield click.style(DESTROYS, fg="red", bold=True)
    if step.approval:
        yield _warning(f"approval: {step.approval}")
    yield ""
    for number in text.missing:
        yield from _with_annotations([*_command_lines([number], commands), *commands[number].text.split("\n"), ""])
    yield from _with_annotations(list(text.annotated(lambda numbers: _command_lines(numbers, commands))))
    if step.goes_to:
        is_step = step.goes_to.startswith("#") or step.goes_to.isdecimal()
        yield from ("", f"If it fails: -> {'step ' if is_step else ''}{printable(step.goes_to)}")


_ANNOTATION = "\0"
"""Separates style and text in annotations among the lines of a step. It is removed from documents."""


def _with_annotations(lines: Sequence[str]) -> Iterator[str]:
    """Lines of a step with our annotations; on a terminal, the step's Markdown is rendered."""
    screen = Screen.current()
    parts = [line.split(_ANNOTATION) for line in lines]
    if screen.is_terminal:
        from opx.edges.cli.rendering import rendered

        annotations = {part[-1]: part[1] for part in parts if len(part) > 1}
        text = "\n".join(part[-1] for part in parts)
        yield from ((_INDENT + line).rstrip() for line in rendered(text, screen, annotations))
    else:
        yield from ((_INDENT + (part[0] + part[-1] if len(part) > 1 else safe(part[0]))).rstrip() for part in parts)


def _bare(text: str) -> str:
    """Text without emphasis and ellipses."""
    return re.sub(r"[*_`…]", "", " ".join(text.split()))


def _warning(text: str) -> str:
    return click.style(f"! {printable(text).replace('**', '')}", fg="yellow", bold=True)


def _lead_and_own(part: DocumentPart, step: StepView) -> tuple[list[str], str]:
    """The lines before the step's first line, and its own text; without generated warnings, which are shown before it."""
    annotations = {f"[Warning: {one_line(text)}]" for text in part.warnings}
    lines = [line for line in part.content.replace(_ANNOTATION, "").split("\n") if line not in annotations]
    title = _bare(step.title)
    begins = (at for at, line in enumerate(lines) if title and title in _bare(line) and not line.startswith("#"))
    first = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    first = next(begins, first)
    return lines[:first], "\n".join(lines[first:])


def _text_lines(text: str) -> Iterator[str]:
    return ((_INDENT + line).rstrip() for line in safe(text).strip("\n").split("\n"))


def _command_lines(numbers: Sequence[int], commands: Sequence[FilledCommand]) -> list[str]:
    """Annotations of a block: the effect of its commands and their differences from the document."""
    command = commands[numbers[0]]
    number = numbered(numbers, commands) if len(commands) > 1 else ""
    reach = f", reaches {command.blast}" if command.blast else ""
    means = f"{command.effect}: {command.reason}" if command.reason else MEANS[command.effect]
    lines = [(command.effect.value, f"{number}{means}{reach}")]
    lines += [("caution", f"! the example has {one}") for one in command.differs]
    if command.placeholders:
        lines.append(("caution", f"still to be filled in: {', '.join(command.placeholders)}"))
    lines += [("dim", f"as written: {command.as_written}")] if command.as_written else []
    if command.undo or command.effect is Effect.REVERSIBLE:
        lines.append(("dim", f"undo: {command.undo}" if command.undo else _NO_UNDO))
    return [f"{_ANNOTATION}{style}{_ANNOTATION}{shorten(printable(text), _SHORT)}" for style, text in lines]


def _nothing_lines(found: Procedure) -> Iterator[str]:
    yield f"No procedure was found for {printable(found.alert)[:200]}."
    yield from (f"Note: {printable(note)}" for note in found.notes)
    if found.others:
        yield "Nearest:"
        yield from (f"{_INDENT}{_other(one)}" for one in found.others)


def _other(one: NextCall) -> str:
    return f"{printable(one.why)}  [{printable(str(one.arguments.get('document', '')))}]"


def _list_lines(walk: StepWalk, here: int) -> Iterator[str]:
    screen, section = Screen.current(), ""
    for at, step in enumerate(walk.steps):
        if step.section != section:
            section = step.section
            yield screen.styled(printable(section), "dim")
        effect = "  " + screen.styled(step.effect, step.effect) if step.is_classed else ""
        yield f"{'>' if at == here else ' '} {step.name}  {printable(step.title)}{effect}"


# -- interactive keys


class Keys:
    """Interactive loop: shows steps and handles keys."""

    def __init__(self, walk: StepWalk, begin: int) -> None:
        self._walk = walk
        self._at = begin

    def run(self) -> None:
        self._show(self._at)
        while (key := self._key(_KEYS)) not in ("q", ""):
            try:
                self._do(key)
            except DocumentNotFoundError as exc:
                raise CommandFailed(f"the document was deleted meanwhile: {exc}", FAILED) from exc
            except InvalidInputError as exc:
                warn(str(exc))

    def _do(self, key: str) -> None:
        if key in ("n", "\r", "\n"):
            self._next()
        elif key == "b":
            self._show(max(self._at - 1, 0))
        elif key.isdecimal() or key == "#":
            at, notes = self._walk.find_step(self._number(key))
            self._show(at)
            warn(*map(printable, notes))
        elif key == "y":
            self._copy()
        elif key == "l":
            print_lines(_list_lines(self._walk, self._at))
        elif key == "o":
            self._record_outcome()

    def _next(self) -> None:
        if self._at + 1 < len(self._walk.steps):
            self._show(self._at + 1)
        else:
            click.echo("That was the last step.")

    def _show(self, at: int) -> None:
        self._at = at
        print_lines(step_lines(self._walk, at))

    def _number(self, digits: str) -> str:
        """Reads the rest of a number up to Enter, if steps have more than one digit."""
        most = max(len(step.name.removeprefix("#")) for step in self._walk.steps) + digits.count("#")
        while len(digits) < most and (key := click.getchar()) not in ("\r", "\n", ""):
            digits += key
        return digits

    def _copy(self) -> None:
        commands = self._walk.commands(self._at)
        if not commands:
            click.echo("This step has no command.")
            return
        number = "1" if len(commands) == 1 else self._key(f"Which command, 1 to {len(commands)}?")
        if not (number.isdecimal() and 1 <= int(number) <= len(commands)):
            click.echo("Nothing was copied.")
            return
        command = commands[int(number) - 1]
        if command.effect is Effect.DESTRUCTIVE and self._key(f"{MEANS[Effect.DESTRUCTIVE]}. Copy it? y/n") != "y":
            click.echo("Nothing was copied.")
        elif any(not (letter.isprintable() or letter in "\n\t") for letter in command.text):
            click.echo("The command has control characters, so it isn't copied: type it by hand.")
        else:
            click.echo(_clipboard(command.text), nl=False)
            left = command.placeholders
            unfilled = f" Still to be filled in: {printable(', '.join(left))}." if left else ""
            click.echo(f"Copied, not executed.{unfilled}")

    def _record_outcome(self) -> None:
        result = _RESULTS.get(self._key("Outcome? [r]esolved  [n]o effect  made it [w]orse"))
        if result is None:
            click.echo("Nothing was recorded.")
            return
        walk = self._walk
        request = RecordOutcome(
            receipt_id=walk.procedure.receipt_id or NO_RECEIPT,
            result=result,
            document_id=walk.document.document_id,
            step=walk.steps[self._at].title[:MAX_STEP],
        )
        try:
            report = self._recorded(request)
        except OpxError as exc:
            warn(f"the outcome was not recorded: {exc}")
            return
        click.echo(f"Recorded: {report.result.value.replace('_', ' ')}. {printable(report.standing.explanation)}.")

    def _recorded(self, request: RecordOutcome) -> OutcomeReport:
        """Records an outcome. A runbook that the alert is bound to may not be among the results of its search: then a search
        within it provides the receipt."""
        client = self._walk.client
        try:
            return client.call(record_outcome, request)
        except (InvalidInputError, ReceiptNotFoundError):
            config = QueryConfig(document_id=request.document_id, min_confidence=0, plain=True)
            question = self._walk.procedure.alert[:MAX_QUERY_CHARACTERS] or self._walk.document.title
            answer = client.call(query, Query(query=question, config=config, receipt=True))
            return client.call(record_outcome, replace(request, receipt_id=answer.receipt_id))

    def _key(self, prompt: str) -> str:
        """The pressed key; "" at the end of the input."""
        click.echo(click.style(prompt, dim=True))
        try:
            return click.getchar().lower()
        except EOFError:
            return ""


def _clipboard(text: str) -> str:
    """OSC 52, with which a terminal puts text into the clipboard, also through ssh (xterm, "Operating System Commands")."""
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode('ascii')}\a"
