"""Splits shell text into simple commands: their words, redirections and standard input.

Neither `shlex`, which drops the quotes that distinguish `">"` from a redirection and knows no here-documents, substitutions
or line ends; nor tree-sitter-bash, which the functions that answer questions don't have, and to which `<pod>` is a
redirection.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, field

MAX_DEPTH = 12
"""Substitutions within substitutions."""

SUBSTITUTED = "$()"
"""Stands in a word for the output of a command."""


class ShellError(ValueError):
    """The text isn't shell: a quote or parenthesis is not closed, or it is nested too deep."""


class Simple(Struct):
    """A program and its arguments, without quotes. `raw` are the words as written, `writes` operators and files of output
    redirections. `stdin` is a here-document, `reads_file` the file that is standard input; `piped`: it is the output of the
    command before."""

    words: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    writes: list[tuple[str, str]] = field(default_factory=list)
    stdin: str | None = None
    reads_file: str = ""
    piped: bool = False


class Script(Struct):
    """Simple commands in order, and the text of substitutions among their words."""

    commands: list[Simple] = field(default_factory=list)
    substitutions: list[str] = field(default_factory=list)


_SYSTEM = "etc|usr|boot|dev|bin|sbin|lib|var|root|proc|sys|opt|home|srv|mnt|media|data|run"
_TOKEN = re.compile(
    rf"""
      (?P<space> [ \t\r]+ | \\\r?\n )
    | (?P<newline> \n )
    | (?P<comment> \#[^\n]* )
    | (?P<document> <<-?(?!<)[ \t]*(?:'[^'\n]+'|"[^"\n]+"|\\?[\w.-]+) )
    | (?P<placeholder> (?!<[^<>\s]*\.[^<>\s]*>\s?[\w./~$"'])
        <[A-Za-z](?:[^<>|&;()$`"'\n\\]{{0,60}}[\w\])?*.…])?>(?![>&\w~$"']|/(?:{_SYSTEM})\b|\.\.?/) | \{{\{{[^{{}}\n]*\}}\}} )
    | (?P<open> \$\( | [<>]\( | ` )
    | (?P<redirect> (?:\d{{1,3}}|&)?(?:>>|>\||>&|>|<<<|<>|<&|<) )
    | (?P<separator> &&|\|\||;;&?|;&|\|&|[;|&()] )
    | (?P<single> \$?'[^']*' )
    | (?P<double> " )
    | (?P<escape> \\. )
    | (?P<braces> \$\{{ )
    | (?P<plain> [^\s'"`$\\;|&()<>\#{{}}]+ | [$\#{{}}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_DOCUMENT = re.compile(r"<<(-?)[ \t]*(['\"\\]?)([^'\"]+)")
_WITHIN_QUOTES = re.compile(r'[^"\\`$]+|\\.|(?P<open>\$\(|`)|(?P<end>")|\$', re.DOTALL)
_WITHIN_PARENTHESES = re.compile(
    r"""[^()'"`\\]+|\\.|'[^']*'|(?P<double>")|(?P<tick>`(?:[^`\\]|\\.)*`)|(?P<open>\()|(?P<end>\))""", re.DOTALL
)


class _Splitter:
    """Reads text from beginning to end, a token at a time."""

    def __init__(self, text: str, depth: int) -> None:
        self._text, self._depth, self._at = text + "\n", depth, 0
        self._found = Script()
        self._simple = Simple()
        self._word: list[str] | None = None
        self._word_start = 0
        self._redirect = ""
        self._documents: list[tuple[Simple, str, bool, bool]] = []
        self._readers: dict[str, Callable[[str], None]] = {
            "space": self._back_to,
            "newline": self._newline,
            "comment": self._comment,
            "document": self._document,
            "placeholder": self._add,
            "open": self._substitution,
            "redirect": self._redirection,
            "separator": self._separator,
            "single": self._quoted,
            "double": lambda _: self._double(),
            "escape": lambda piece: self._add(piece[1:]),
            "braces": lambda _: self._braces(),
            "plain": self._add,
        }

    def script(self) -> Script:
        while self._at < len(self._text):
            piece = _TOKEN.match(self._text, self._at)
            if piece is None or piece.lastgroup is None:
                raise ShellError("a quote is not closed")
            start, self._at = self._at, piece.end()
            if self._word is None:
                self._word_start = start
            self._readers[piece.lastgroup](piece.group())
        return self._found

    def _add(self, text: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(text)

    def _end_word(self) -> None:
        if self._word is None:
            return
        text, self._word = "".join(self._word), None
        if not self._redirect:
            self._simple.words.append(text)
            self._simple.raw.append(self._text[self._word_start : self._at])
        elif self._redirect == "<<<":
            self._simple.stdin = text
        elif ">" in self._redirect:
            self._simple.writes.append((self._redirect, text))
        elif text != "/dev/null":
            self._simple.reads_file += f" {text or '?'}"
        self._redirect = ""

    def _back_to(self, piece: str) -> None:
        """Ends the word before the piece, whose text it doesn't have."""
        self._at -= len(piece)
        self._end_word()
        self._at += len(piece)

    def _separator(self, piece: str) -> None:
        if piece == "(" and self._word and self._word[-1].endswith("="):  # an array
            array = self._parenthesised()
            self._found.substitutions += substitutions_in(array, self._depth)
            return self._add(array)
        self._back_to(piece)
        if self._redirect:
            raise ShellError("a redirection without a file")
        was_piped = self._simple.piped
        if self._simple.words or self._simple.writes:
            self._found.commands.append(self._simple)
            self._simple, was_piped = Simple(), was_piped and piece != "\n"
        self._simple.piped = was_piped or piece in ("|", "|&")
        return None

    def _newline(self, piece: str) -> None:
        self._separator(piece)
        for simple, mark, is_indented, is_literal in self._documents:
            body = self._lines_before(mark, is_indented)
            simple.stdin = body
            if not is_literal:
                self._found.substitutions += substitutions_in(body, self._depth)
        self._documents.clear()

    def _lines_before(self, mark: str, is_indented: bool) -> str:
        lines = []
        while self._at < len(self._text):
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            line, self._at = self._text[self._at : end], end + 1
            if (line.lstrip("\t") if is_indented else line).rstrip() == mark:
                break
            lines.append(line)
        return "\n".join(lines)

    def _comment(self, piece: str) -> None:
        if self._word is not None:  # a # within a word is a character
            self._at -= len(piece) - 1
            self._add("#")

    def _document(self, piece: str) -> None:
        self._back_to(piece)
        if match := _DOCUMENT.match(piece):
            self._documents.append((self._simple, match[3].strip(), bool(match[1]), bool(match[2])))

    def _redirection(self, piece: str) -> None:
        self._back_to(piece)
        self._redirect = piece.lstrip("0123456789&")

    def _quoted(self, piece: str) -> None:
        if piece.startswith("$") and "\\" in piece:
            raise ShellError("escapes of $'...' can hide what a word is")
        self._add(piece[piece.index("'") + 1 : -1])

    def _double(self) -> None:
        self._add("")
        while part := _WITHIN_QUOTES.match(self._text, self._at):
            self._at = part.end()
            if part.lastgroup == "end":
                return
            if part.lastgroup == "open":
                self._substitution(part.group())
            else:
                text = part.group()
                self._add(text[1:] if text[0] == "\\" and text[1] in '\\"$`\n' else text)
        raise ShellError("a double quote is not closed")

    def _braces(self) -> None:
        """`${NAME}`, whose default may be the output of a command: `${NAME:-$(...)}`."""
        end = self._text.find("}", self._at)
        if end < 0:
            raise ShellError("a brace is not closed")
        inside = self._text[self._at : end]
        if "`" in inside or "$(" in inside:
            raise ShellError("a substitution within ${...}")
        self._at = end + 1
        self._add(f"${{{inside}}}")

    def _substitution(self, piece: str) -> None:
        if self._depth >= MAX_DEPTH:
            raise ShellError("nested too deep")
        if piece != "`":
            inside = self._parenthesised()
            if inside.startswith("(") and piece == "$(" and "$(" not in inside and "`" not in inside:
                return self._add("0")  # arithmetic
        else:
            end = self._text.find("`", self._at)
            if end < 0:
                raise ShellError("a back-tick is not closed")
            inside, self._at = self._text[self._at : end], end + 1
        self._found.substitutions.append(inside)
        return self._add(SUBSTITUTED)

    def _parenthesised(self) -> str:
        """The text up to the parenthesis that closes one which was just read."""
        start, depth, in_quotes = self._at, 1, False
        while part := (_WITHIN_QUOTES if in_quotes else _WITHIN_PARENTHESES).match(self._text, self._at):
            self._at = part.end()
            if in_quotes:
                in_quotes = part.lastgroup != "end"
            elif part.lastgroup == "double":
                in_quotes = True
            else:
                depth += {"open": 1, "end": -1}.get(part.lastgroup or "", 0)
            if not depth:
                return self._text[start : self._at - 1]
        raise ShellError("a parenthesis is not closed")


def split(text: str, depth: int = 0) -> Script:
    """Splits text into its simple commands. Raises `ShellError`."""
    return _Splitter(text, depth).script()


def substitutions_in(text: str, depth: int) -> list[str]:
    """The commands whose output is substituted into text such as a here-document. Raises `ShellError`."""
    if "$(" not in text and "`" not in text:
        return []
    return split('"' + text.replace('"', "") + '"', depth).substitutions
