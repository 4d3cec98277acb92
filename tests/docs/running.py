"""Runs the commands of a page in a shell and lists those that fail, print nothing, or print something else."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import Block, Command

LASTING = re.compile(r"opx (?:--home \S+ )?(?:serve|run|watch|mcp --listen)\b[^&]*$")
"""Commands that go on until they are ended: they have to announce that they run, and to end when they should."""

ANNOUNCED = r"http://\|[Ww]atching\|[Ss]erving\|[Ll]istening\|Ctrl-C"
QUIET = re.compile(r"^(?!.*\bopx\b)|>\s*\S+\s*(?:#.*)?$|&\s*(?:#.*)?$", re.DOTALL)
"""Commands that needn't print anything: other programs, and output into a file."""

EMPTY = re.compile(
    r"^(?:opx: )?(?:nothing|no [a-z]+ (?:is|are|has|have|yet|match)|there (?:is|are) no)\b", re.IGNORECASE
)
"""Answers of one line without content: errors, unless the block lists the text in `shows`."""

LIMIT = 500
"""Seconds for a block."""

_MARK = "=== the command at line "
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-][\d:]+)?)?"), "DATE"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{6,64}\b"), "ID"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|days?)\b"), "TIME"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    command: Command
    status: int
    output: str


@dataclass(frozen=True, slots=True)
class Shell:
    """A folder in which a page's commands run, with the `opx` of this environment and nothing of the caller's settings."""

    folder: Path
    programs: Path

    @property
    def variables(self) -> dict[str, str]:
        path = os.pathsep.join(
            [str(self.programs), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        )
        kept = {name: value for name, value in os.environ.items() if name in ("OPX_MODEL_CACHE", "XDG_CACHE_HOME")}
        return {"PATH": path, "HOME": str(self.folder), "COLUMNS": "100", "PAGER": "cat", "LC_ALL": "C.UTF-8", **kept}

    def run(self, script: str) -> str:
        """Standard output and errors of a script, in the order in which they came."""
        with subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        ) as process:
            try:
                return process.communicate(timeout=LIMIT)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return process.communicate()[0]

    def outcomes(self, block: Block) -> list[Outcome]:
        """The outcome of each command of the block. What it left in the background is ended."""
        lines = ["trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT", *block.first]
        for command in block.commands:
            begins, ends = f"echo; echo '{_MARK}{command.line}'", 'ended=$?; echo; echo "=== ended: $ended"'
            lines += [begins, _watched(command.text), ends]
        _, *parts = self.run("\n".join(lines)).split(_MARK)
        found = {int(line): rest.rsplit("=== ended: ", 1) for line, rest in (part.split("\n", 1) for part in parts)}
        return [_outcome(command, found.get(command.line, [])) for command in block.commands]


def _watched(command: str) -> str:
    """The command; one that goes on is ended once it has announced itself."""
    if not LASTING.match(command):
        return command
    text = " ".join(shlex.split(command, comments=True))
    return f""": > lasting.log  # before the command's own shell does it
{text} > lasting.log 2>&1 &
until grep -q '{ANNOUNCED}' lasting.log || ! kill -0 $! 2>/dev/null; do sleep .1; done
kill $! 2>/dev/null; wait $! 2>/dev/null
stopped=$?; cat lasting.log; (exit $(( stopped == 143 ? 0 : stopped )))"""


def _outcome(command: Command, parts: Sequence[str]) -> Outcome:
    output, rest = parts if len(parts) == 2 else ("it was not reached, or took too long", "-1")
    status, *_ = rest.splitlines()  # what else is there was printed in the background
    return Outcome(command, int(status), output.strip("\n"))


def problems(block: Block, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The commands that don't do what the page says, each with its line, the reason, and the end of its output."""
    for outcome in outcomes:
        for reason in _reasons(outcome, block.shows):
            end = "\n    ".join(outcome.output.splitlines()[-12:])
            yield f"{block.page}:{outcome.command.line}: {reason}: {outcome.command.text}\n    {end}"
    printed = same("\n".join(outcome.output for outcome in outcomes))
    for text in block.shows:
        if same(text) not in printed:
            yield f"{block.page}:{block.line}: the block doesn't show {text!r}"


def _reasons(outcome: Outcome, shows: Sequence[str]) -> Iterator[str]:
    command = outcome.command
    if outcome.status != command.status:
        yield f"exit status {outcome.status}"
    elif command.expected is not None:
        if command.expected and not matches(command.expected, outcome.output):
            yield "the page shows another output"
    elif not outcome.output.strip() and not QUIET.search(command.text):
        yield "no output"
    elif not command.status and _is_empty(outcome.output) and not any(text in outcome.output for text in shows):
        yield "an empty answer"


def _is_empty(output: str) -> bool:
    return len(output.strip().splitlines()) == 1 and EMPTY.search(output.strip()) is not None


def matches(expected: Sequence[str], output: str) -> bool:
    """The output has the expected lines. `...` stands for anything within a line, and alone for any lines."""
    pattern = ""
    for line in same("\n".join(expected).strip()).splitlines():
        if line.strip() in ("...", "…"):
            pattern += r"(?:.*\n)*?"
        else:
            pattern += re.escape(line.rstrip()).replace(r"\.\.\.", ".*").replace("…", ".*") + r" *\n"
    return re.fullmatch(pattern, same(output.strip()) + "\n") is not None


def same(text: str) -> str:
    """The text without what differs from run to run: times, ids and the width of columns."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text
