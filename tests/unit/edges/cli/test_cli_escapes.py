"""Escape sequences in documents, names and questions don't reach the terminal, whatever command prints them."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opx.edges.cli.main import Launch, cli
from opx.edges.cli.output import CommandFailed, print_lines, safe, tame, warn
from opx.system import connect
from tests.support.cli_support import ROOT, Opx, environment, word_services

ESCAPES = "\x1b[2J\x1b]0;pwned\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\x9b2J\x1b]52;c;QUFB\x07\u202e"
IN_YAML = json.dumps(ESCAPES)[1:-1]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")

FACTS = "".join(f'{name}: "{name} {IN_YAML}"\n' for name in ("title", "author", "owner"))
DOCUMENT = f"""---
{FACTS}tags: ["tag{IN_YAML}"]
---
# Heron {ESCAPES}

Restart the heron {ESCAPES} now. depends_on: service:pay{ESCAPES}

## Steps {ESCAPES}

1. Run it {ESCAPES}:

```sh
kubectl delete pod {ESCAPES}
```

| a{ESCAPES} | b |
|---|---|
| c{ESCAPES} | d |
"""
RULES = f"""groups:
- name: g
  rules:
  - alert: "Disk{IN_YAML}"
    expr: up == 0
    annotations:
      summary: "full {IN_YAML}"
      runbook_url: "https://site.example/{IN_YAML}"
"""


@pytest.fixture(scope="module")
def opx(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    opx = Opx(tmp_path_factory.mktemp("escapes"))
    opx.write("a.md", DOCUMENT)
    opx.write("b.md", f"# Two {ESCAPES}\n\nRestart the heron. runbook for alert:DiskFull{ESCAPES}\n")
    opx.write("c.html", f"<title>{ESCAPES}</title><p>{ESCAPES}")
    opx.write("d.json", "{" + ESCAPES)
    opx.write("rules.yaml", RULES)
    coloured(opx, "ingest", opx.folder / "docs")
    opx.write("a.md", DOCUMENT.replace("now", f"later {ESCAPES}"))
    coloured(opx, "ingest", opx.folder / "docs")
    return opx


def coloured(opx: Opx, *arguments: str | Path) -> Result:
    """The output as a terminal gets it: click removes sequences from what isn't for one."""
    line = ["--home", str(opx.home), *map(str, arguments)]
    launch = Launch(word_services, connect, {})
    return CliRunner().invoke(cli, line, obj=launch, prog_name="opx", color=True)


def unsafe(text: str) -> list[str]:
    return _UNSAFE.findall(_COLOUR.sub("", text))


@pytest.mark.parametrize(
    "command",
    [
        ["search", "restart the heron"],
        ["search", "restart the heron", "--explain"],
        ["search", "restart the heron", "--json"],
        ["search", f"heron {ESCAPES}"],
        ["search", f"espresso {ESCAPES}"],
        ["list"],
        ["list", "--json"],
        ["failed"],
        ["failed", "retry", "--all"],
        ["gaps"],
        ["gaps", "check"],
        ["status"],
        ["review"],
        ["reconcile"],
        ["audit"],
        ["research", "heron"],
        ["alerts", "list"],
        ["graph", "show", "service:pay"],
        ["graph", "neighbours", "service:pay"],
        ["learn", "list"],
        ["hold", "list"],
        ["delete", f"x{ESCAPES}", "--yes"],
        ["ingest", f"nowhere{ESCAPES.replace('/', '')}"],
        ["hold", "add", "--reason", f"matter {ESCAPES}", "--by", f"ann {ESCAPES}"],
    ],
    ids=lambda command: " ".join(command[:2]).partition("\x1b")[0],
)
def test_nothing_that_a_terminal_acts_on_is_printed(opx: Opx, command: list[str]) -> None:
    result = coloured(opx, *command)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert unsafe(result.output) == []


def ids(opx: Opx) -> list[str]:
    return [each["documentId"] for each in json.loads(opx("list", "--json").stdout)]


def test_versions_and_their_differences_are_printed_without_sequences(opx: Opx) -> None:
    for document in ids(opx):
        for command in ("history", "diff"):
            assert unsafe(coloured(opx, command, document).output) == []


def on_a_terminal(opx: Opx, *arguments: str) -> str:
    read, write = pty.openpty()
    process = opx.start(*arguments, stdout=write, stderr=write, env=environment(TERM="xterm", PYTHONPATH=str(ROOT)))
    os.close(write)
    found = b""
    try:
        while data := os.read(read, 65_536):
            found += data
    except OSError:  # the end of a terminal on Linux
        pass
    finally:
        os.close(read)
    process.communicate()
    return found.decode(errors="replace").replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform != "linux", reason="terminals end in another way elsewhere")
def test_a_terminal_gets_only_colours_and_links_of_ours(opx: Opx) -> None:
    for arguments in (
        ("search", "restart the heron"),
        *(("show", one, *more) for one in ids(opx) for more in ((), ("--chunks",))),
    ):
        output = on_a_terminal(opx, *arguments)
        assert "heron" in output.lower() or arguments[0] == "show"
        assert "\x1b]8;;http://evil" not in output
        assert unsafe(re.sub(r"\x1b\]8;;(?:(?:https?|file)://[!-~]*)?\x1b\\", "", output)) == []


def test_lines_errors_and_warnings_are_printed_without_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([f"line {ESCAPES}"])
    warn(f"warning {ESCAPES}")
    CommandFailed(f"error {ESCAPES}").show()
    output = "".join(capsys.readouterr())
    assert [word for word in ("line", "warning", "error") if word in output] == ["line", "warning", "error"]
    assert "]0;pwned" in output
    assert "\x1b]0" not in output
    assert "\x1b[2J" not in output


def test_the_text_itself_is_kept_in_a_pipe(opx: Opx) -> None:
    """`opx show > file` gives the document as it is."""
    (found,) = [one for one in ids(opx) if "Steps" in opx("show", one).stdout]
    assert ESCAPES in coloured(opx, "show", found).output


def test_only_sequences_of_ours_are_left_of_a_line() -> None:
    link = "\x1b]8;;https://site.example/a%20b\x1b\\text\x1b]8;;\x1b\\"
    assert tame(f"\x1b[1mbold\x1b[0m {link} {ESCAPES}") == f"\x1b[1mbold\x1b[0m {link} {tame(ESCAPES)}"
    assert "pwned" in safe(ESCAPES)
    assert unsafe(safe(ESCAPES)) == []
    assert tame("\x1b]8;;javascript://x\x1b\\y") == "]8;;javascript://x\\y"
