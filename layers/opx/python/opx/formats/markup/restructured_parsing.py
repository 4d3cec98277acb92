"""A parser of reStructuredText that also takes the directives and roles of Sphinx, and of any other extension.

docutils keeps directives and roles in tables of the process. Nothing is put there, so that no document changes how
another one is read: what the tables lack, or can't be used as it is, is caught where docutils looks it up.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, Parser, roles, states
from docutils.utils import unescape

_CODE = ("code", "code-block", "sourcecode", "prompt", "parsed-literal", "ipython", "doctest", "testcode")
_DROPPED = (
    "index",
    "highlight",
    "currentmodule",
    "default-domain",
    "role",
    "default-role",
    "tabularcolumns",
    "contents",
)
_NOT_THERE = ("include", "literalinclude", "raw", "date")
_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_OWN = frozenset((*_CODE, *_DROPPED, *_NOT_THERE, *_VERSIONS, "toctree", "class", "seealso"))
_DIRECTIVE = re.compile(r"\.\.[ ]+\S+?[ ]?::(?:[ ]+|$)")
_TARGETED = re.compile(r"(.+?)\s*<[^<>]*>\Z", re.DOTALL)
_NAME = "opx-directive"


class _AnyOption(dict[str, Any]):
    """Options of any name."""

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, name: str) -> Any:
        return lambda value: value or ""


class _Any(Directive):  # type: ignore[misc]
    """Any directive: its arguments, its options where they say something, and what is below it."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[Any] = _AnyOption()

    def run(self) -> list[nodes.Node]:
        if self.name in _DROPPED:
            return []
        if self.name in _CODE:
            return self._code()
        if self.name in _NOT_THERE:
            return [nodes.comment("", f"{self.name} {' '.join(self.arguments)}".strip(), classes=[_NAME])]
        return [*self._named(), *self._nested()]

    def _code(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        language = " ".join(self.arguments) if self.name != "parsed-literal" else ""
        if not text:  # without a blank line before it, the code counts as an argument
            language, _, text = "\n".join(self.arguments).partition("\n")
        caption = self.options.get("caption")
        block = nodes.literal_block(text, text, language=language)
        return [nodes.paragraph("", str(caption)), block] if caption else [block]

    def _named(self) -> list[nodes.Node]:
        text = "\n".join(self.arguments)
        if self.name == "toctree":
            entries = [line.strip() for line in (*self.arguments, *self.content) if line.strip()]
            items = [nodes.list_item("", nodes.paragraph("", _titled(entry))) for entry in entries]
            return [nodes.bullet_list("", *items)] if items else []
        if self.name in _VERSIONS:
            version, _, text = text.partition(" ") if "\n" not in text else text.partition("\n")
            return [nodes.paragraph("", f"{_VERSIONS[self.name]} {version}{': ' if text else ''}{text.strip()}")]
        if self.name == "seealso":
            return [nodes.paragraph("", "", nodes.strong("", "See also:"), nodes.Text(f" {text}"))]
        names = [f"{self.name}::" if ":" not in self.name else f"{self.name.rpartition(':')[2]}::"]
        lines = [nodes.strong("", names[0])]
        if text:
            lines += [nodes.Text(" "), nodes.literal("", " ".join(text.split()))]
        told = ", ".join(f"{key}: {value}" for key, value in self.options.items() if isinstance(value, str) and value)
        if told:
            lines.append(nodes.Text(f" ({told})"))
        return [nodes.paragraph("", "", *lines)]

    def _nested(self) -> list[nodes.Node]:
        if self.name == "toctree":
            return []
        node = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, node)
        return list(node.children)


def _titled(text: str) -> str:
    match = _TARGETED.match(text)
    return match[1] if match else text


class _Lenient:
    """Mixed into the states of docutils' parser."""

    state_machine: Any
    nested_sm_cache: ClassVar[list[Any]] = []
    """Not docutils' own, whose machines have its own states."""

    def __init__(self, state_machine: Any, debug: bool = False) -> None:
        super().__init__(state_machine, debug)  # type: ignore[call-arg]
        self.nested_sm_kwargs = {"state_classes": STATES, "initial_state": "Body"}

    def run_directive(self, directive: Any, match: Any, type_name: str, option_presets: Any) -> Any:
        name = type_name.lower()
        chosen = _Any if name in _OWN else directive
        return super().run_directive(chosen, match, name, option_presets)  # type: ignore[misc]

    def unknown_directive(self, type_name: str) -> Any:
        match = _DIRECTIVE.match(self.state_machine.line)
        if not match:  # within a substitution
            return super().unknown_directive(type_name)  # type: ignore[misc]
        return super().run_directive(_Any, match, type_name.lower(), {})  # type: ignore[misc]


STATES = tuple(type(state.__name__, (_Lenient, state), {}) for state in states.state_classes)
"""docutils' own states, more lenient; it finds them by these names."""


def _inliner() -> states.Inliner:
    """Shows roles that docutils doesn't know as their text: `:ref:`title <target>`` as the title.

    Not a subclass: docutils looks for its patterns in the class of the object itself.
    """
    inliner = states.Inliner()
    known = inliner.interpreted

    def interpreted(rawsource: str, text: str, role: str, lineno: int) -> Any:
        if role.lower() in _KNOWN_ROLES:
            return known(rawsource, text, role, lineno)
        shown = _titled(unescape(text, True).lstrip("~!"))
        plain = role.rpartition(":")[2] in _PLAIN_ROLES
        return [nodes.Text(shown) if plain else nodes.literal("", shown)], []

    inliner.interpreted = interpreted
    return inliner


_PLAIN_ROLES = ("ref", "doc", "term", "abbr", "guilabel", "numref", "any", "menuselection")
_KNOWN_ROLES = frozenset(
    ("", "emphasis", "strong", "literal", "math", "sub", "subscript", "sup", "superscript", "code")
)


class SphinxParser(Parser):  # type: ignore[misc]
    """For one document."""

    def __init__(self) -> None:
        super().__init__(inliner=_inliner())
        self.state_classes = STATES

    def parse(self, inputstring: str, document: nodes.document) -> None:
        roles._roles.pop("", None)  # left behind if another document failed
        super().parse(inputstring, document)
