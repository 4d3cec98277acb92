"""Reads definitions, base classes, calls and imports from a syntax tree, as they are written there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from opx_code import code_nodes as nodes
from opx_code.code_nodes import STANDARD_MODULES

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_STEPS = 200_000
"""Nodes of a tree that are visited: those of some 500 KiB of ordinary code."""

_MAX_DEFINITIONS = 2_000
_MAX_CALLS = 10_000
_MAX_TEXT = 300
_BRACKETS = re.compile(r"<[^<>()]*>|\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}")
_HERITAGE_WORDS = re.compile(
    r"\b(?:extends|implements|public|private|protected|virtual|with|override|readonly)\b|\A\s*[:<(]|\)\s*\Z"
)
_HERITAGE_SPLIT = re.compile(r"[,&+\s]+")
_MAKING = re.compile(r"^(?:this\.|self\.)?([a-z_]\w*)[^=\n]{0,60}?:?=\s*(?:await\s+)?(?:new\s+|&)?([A-Z]\w*)\s*[({<]")
_NAME_TYPE = re.compile(r"(?:^|[\s(])([a-z_]\w*)\??\s*:\s*[&*]?(?:mut\s+)?([A-Z]\w*)")
_TYPE_NAME = re.compile(r"(?:^|\s)\??([A-Z]\w*)(?:<[^;=]{0,80}>)?[\s*&]+\$?([a-z_]\w*)\s*(?:[=;,)]|$)")
_GO_NAME_TYPE = re.compile(r"([a-z_]\w*)\s+\*?(?:\w+\.)?([A-Z]\w*)\s*$")

_ALIAS = re.compile(r"\s+as\s+")
_FROM_PYTHON = re.compile(r"from\s+(\S+)\s+import\s+\(?(.*?)\)?\s*\Z", re.DOTALL)
_SCRIPT = re.compile(r"import\s+(?:type\s+)?(.*?)\s*from\s*[\"']([^\"']+)[\"']", re.DOTALL)
_REQUIRE = re.compile(r"(?:const|let|var)\s+([\w${}\s,:]+?)\s*=\s*require\(\s*[\"']([^\"']+)[\"']")
_GO = re.compile(r"(?:([\w.]+)\s+)?\"([^\"]+)\"")
_COMMENT = re.compile(r"(?://|#)[^\n]*")
_USE_GROUP = re.compile(r"([\w:\\]*)\{([^{}]*)\}")
_MAX_NAMES = 200


@dataclass(frozen=True, slots=True)
class Definition:
    """A class (`owner` is the class around it), a function, or a method of `owner`."""

    kind: str
    name: str
    owner: str = ""

    @property
    def value(self) -> str:
        return f"{self.owner}.{self.name}" if self.kind == "method" else self.name


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call as it is written: `parts` are `("self", "repo", "find")`. `creates`: it constructs an object."""

    caller: Definition
    parts: tuple[str, ...]
    creates: bool = False


@dataclass(slots=True)
class CodeFile:
    """Definitions and calls of a file, in its order. `variables` has the declared class of each variable, "" for one that
    is declared with several."""

    language: str
    definitions: list[Definition] = field(default_factory=list)
    bases: list[tuple[str, str]] = field(default_factory=list)
    calls: list[CallSite] = field(default_factory=list)
    imports: dict[str, Imported] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    cut: bool = False

    def add_variable(self, name: str, type_name: str) -> None:
        known = self.variables.setdefault(name, type_name)
        if known != type_name:
            self.variables[name] = ""


_Visit = tuple["Node", str, "Definition | None"]
"""A node, the class around it, and the outermost function around it."""


def read_code(root: Node, code: bytes, language: str) -> CodeFile:
    """Reads a tree without recursion: a hostile file may be nested as deeply as it is long."""
    found = CodeFile(language)
    reader = _Reader(code, found)
    stack: list[_Visit] = [(child, "", None) for child in reversed(root.children)]
    for _ in range(MAX_STEPS):
        if not stack:
            return found
        node, owner, function = stack.pop()
        if node.is_named:
            owner, function = reader.enter(node, owner, function)
            stack.extend((child, owner, function) for child in reversed(node.children))
    found.cut = True
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    code: bytes
    found: CodeFile

    def enter(self, node: Node, owner: str, function: Definition | None) -> tuple[str, Definition | None]:
        """Record a node; returns the class and the function around its children."""
        kind = node.type
        if kind in nodes.CLASSES and function is None and (name := self._class_name(node)):
            self._define_class(node, name, owner)
            return name, None
        if function is None and not owner and self._imports(kind):
            self.found.imports.update(imported(self._text(node, 2_000), self.found.language))
        elif function is None and (kind in nodes.FUNCTIONS or _holds_function(node)):
            return self._define_function(node, owner)
        if kind in nodes.DECLARATIONS:
            self._note_type(self._text(node))
        if kind in nodes.CALLS and function is not None:
            self._note_call(node, function)
        return owner, function

    def _imports(self, kind: str) -> bool:
        return kind in nodes.IMPORTS or (kind in nodes.SCRIPT_IMPORTS and self.found.language in nodes.SCRIPTS)

    def _define_class(self, node: Node, name: str, owner: str) -> None:
        if node.type != "impl_item":
            self._define(Definition("class", name, owner))
        for child in node.children:
            if child.type in nodes.HERITAGE:
                self.found.bases.extend((name, base) for base in self._split(self._text(child, 1_000)))
        if node.type == "class_statement":  # PowerShell's are names side by side
            names = [child for child in node.named_children if child.type == "simple_name"]
            self.found.bases.extend((name, self._text(base)) for base in names[1:])
        trait = node.child_by_field_name("trait")
        if trait is not None:
            self.found.bases.extend((name, base) for base in self._split(self._text(trait)))
        if node.type == "type_spec":
            self.found.bases.extend((name, base) for base in self._embedded(node))

    def _define_function(self, node: Node, owner: str) -> tuple[str, Definition | None]:
        name = self._function_name(node)
        before, separator, name = name.rpartition("::")
        if separator:  # C++: a member that is defined outside of its class
            owner = before.rpartition("::")[2]
        receiver = node.child_by_field_name("receiver")
        if receiver is not None and self.found.language == "go":
            owner = self._receiver_class(receiver)
        if not nodes.IDENTIFIER.match(name):
            return owner, None
        definition = Definition("method" if owner else "function", name, owner)
        self._define(definition)
        return owner, definition

    def _define(self, definition: Definition) -> None:
        if len(self.found.definitions) >= _MAX_DEFINITIONS:
            self.found.cut = True
        elif len(definition.value) <= nodes.MAX_NAME:
            self.found.definitions.append(definition)

    def _class_name(self, node: Node) -> str:
        if node.type == "type_spec":
            kind = node.child_by_field_name("type")
            if kind is None or kind.type not in ("struct_type", "interface_type"):
                return ""
        if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
            return ""  # `struct stat` in a declaration names one that is defined elsewhere
        name = self._name_of(node.child_by_field_name("type") if node.type == "impl_item" else node)
        return name if nodes.IDENTIFIER.match(name) else ""

    def _name_of(self, node: Node | None) -> str:
        """The name of a node by its field, else the first name in it; without type parameters."""
        if node is None:
            return ""
        name = node.child_by_field_name("name") or next(
            (child for child in node.named_children if child.type in nodes.NAMES), node
        )
        return _last(_BRACKETS.sub("", self._text(name, nodes.MAX_NAME + 1)))

    def _function_name(self, node: Node) -> str:
        declarator = node.child_by_field_name("declarator")
        if declarator is None:
            return self._name_of(node) if node.type != "field_definition" else self._text(node.named_children[0])
        for _ in range(8):  # a function that returns a pointer to a pointer
            inner = declarator.child_by_field_name("declarator")
            if inner is None:
                break
            declarator = inner
        return self._text(declarator, nodes.MAX_NAME + 1)

    def _receiver_class(self, receiver: Node) -> str:
        words = re.findall(r"\w+", _BRACKETS.sub("", self._text(receiver).strip("()")))
        return words[-1] if words else ""

    def _embedded(self, node: Node) -> list[str]:
        """Embedded types of Go: fields without a name, and interfaces within an interface."""
        kind = node.child_by_field_name("type")
        lists = [kind, *kind.named_children] if kind is not None else []
        members = [member for one in lists for member in one.named_children]
        found = [
            self._text(member)
            for member in members
            if member.type == "type_elem"
            or (member.type == "field_declaration" and member.child_by_field_name("name") is None)
        ]
        return [base for text in found for base in self._split(text.split("`")[0].strip("* "))]

    def _split(self, text: str) -> list[str]:
        """The names in a list of classes: `: public Base, q::B<int>` -> Base, B."""
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1]
        while (after := _BRACKETS.sub("", text)) != text:
            text = after
        items = (item for item in text.split(",") if "=" not in item)
        words = (word for item in items for word in _HERITAGE_SPLIT.split(_HERITAGE_WORDS.sub(" ", item)))
        bases = [_last(word) for word in words if word]
        return [base for base in bases if nodes.IDENTIFIER.match(base) and len(base) <= nodes.MAX_NAME]

    def _note_type(self, text: str) -> None:
        if self.found.language == "go":
            pair = _MAKING.match(text) or _GO_NAME_TYPE.search(text)
        else:
            pair = _MAKING.match(text) or _NAME_TYPE.search(text)
        if pair:
            self.found.add_variable(pair[1], pair[2])
        elif turned := _TYPE_NAME.search(text):
            self.found.add_variable(turned[2], turned[1])

    def _note_call(self, node: Node, caller: Definition) -> None:
        if len(self.found.calls) >= _MAX_CALLS:
            self.found.cut = True
            return
        start = node.start_byte
        arguments = next((c for c in node.children if _is_arguments(c)), None)
        end = arguments.start_byte if arguments is not None else node.end_byte
        if end - start > _MAX_TEXT:
            return
        text = self.code[start:end].decode(errors="replace").strip().removeprefix("await ").removeprefix("&")
        creates = node.type in nodes.CREATIONS or text.startswith("new ")
        if node.type in ("command", "invokation_expression"):
            text = text.split()[0] if text else ""
        text = text.removeprefix("new ").strip().replace("super()", "super").replace("super(", "super")
        while (after := re.sub(r"<[^<>()]*>|\[[^\[\]]*\]", "", text)) != text:
            text = after
        parts = tuple(nodes.SEPARATORS.split(text))
        if len(parts) > 1 and parts[-1] == "new" and self.found.language in ("ruby", "rust", "powershell"):
            parts, creates = parts[:-1], True
        if len(parts) <= 6 and all(map(nodes.IDENTIFIER.match, parts)):
            self.found.calls.append(CallSite(caller, parts, creates))

    def _text(self, node: Node, most: int = _MAX_TEXT) -> str:
        return self.code[node.start_byte : min(node.end_byte, node.start_byte + most)].decode(errors="replace")


def _is_arguments(node: Node) -> bool:
    kind = node.type
    return (
        ("argument" in kind and not kind.startswith("type_") and kind != "template_argument_list")
        or kind in ("annotated_lambda", "literal_value", "field_initializer_list", "command_elements", "string")
        or (kind == "block" and node.is_named)
    )


def _holds_function(node: Node) -> bool:
    """True for `const f = () => {…}`, and for such a field of a class."""
    if node.type not in nodes.HOLDERS:
        return False
    value = node.child_by_field_name("value")
    return value is not None and value.type in nodes.FUNCTION_VALUES


def _last(path: str) -> str:
    """The last part of a qualified name."""
    return re.split(r"\.|::|\\|->", path.strip())[-1]


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported name. `standard`: from a standard library; `module`: it may be a module with functions."""

    name: str
    standard: bool = False
    module: bool = False


def imported(text: str, language: str) -> dict[str, Imported]:
    """The imported names by local name, from the text of one import statement."""
    read = _READERS.get(language)
    found = islice(read(_COMMENT.sub("", text)), _MAX_NAMES) if read else ()
    return {name: one for name, one in found if name}


Names = Iterator[tuple[str, Imported]]


def _python(text: str) -> Names:
    match = _FROM_PYTHON.match(text)
    if match is None:
        for item in text.removeprefix("import").split(","):
            path, *alias = _ALIAS.split(item.strip())
            yield alias[0] if alias else path.partition(".")[0], _of_python(path, path.rpartition(".")[2], module=True)
        return
    for item in match[2].split(","):
        name, *alias = _ALIAS.split(item.strip())
        yield alias[0] if alias else name, _of_python(match[1], name)


def _of_python(path: str, name: str, *, module: bool = False) -> Imported:
    return Imported(name, path.partition(".")[0] in sys.stdlib_module_names, module or name.islower())


def _script(text: str) -> Names:
    match = _SCRIPT.match(text) or _REQUIRE.match(text)
    if match is None:
        return
    names, source = match[1].replace(":", " as "), match[2]
    standard = source.startswith("node:") or source.partition("/")[0] in STANDARD_MODULES["javascript"]
    braces = re.search(r"\{([^{}]*)\}", names)
    for item in braces[1].split(",") if braces else ():
        name, *alias = _ALIAS.split(item.strip().removeprefix("type "))
        yield alias[0] if alias else name, Imported(name, standard)
    for item in re.sub(r"\{[^{}]*\}", "", names).split(","):
        name, *alias = _ALIAS.split(item.strip())
        yield alias[0] if alias else name, Imported(alias[0] if alias else name, standard, module=True)


def _jvm(text: str) -> Names:
    path, *alias = _ALIAS.split(re.sub(r"\bimport\b|\bstatic\b|;", "", text).strip())
    name = path.rpartition(".")[2]
    if name != "*":
        yield alias[0] if alias else name, Imported(name, path.partition(".")[0] in STANDARD_MODULES["java"])


def _go(text: str) -> Names:
    for alias, path in _GO.findall(text):
        last = re.sub(r"^v\d+$", "", path.rpartition("/")[2]) or path.split("/")[-2 if "/" in path else -1]
        yield alias or last, Imported(last, path.partition("/")[0] in STANDARD_MODULES["go"], module=True)


def _rust(text: str) -> Names:
    body = re.sub(r"\A\s*(?:pub(?:\([^)]*\))?\s+)?use\s+", "", text).strip(" ;\n")
    standard = body.partition("::")[0] in STANDARD_MODULES["rust"]
    items = [body]
    for _ in range(4):  # groups within groups
        items = [each for item in items for each in _ungrouped(item)]
    for item in items:
        path, *alias = _ALIAS.split(item.strip())
        name = path.rpartition("::")[2]
        if name not in ("*", "self", ""):
            yield alias[0] if alias else name, Imported(name, standard, module=name.islower())


def _ungrouped(item: str) -> list[str]:
    match = _USE_GROUP.search(item)
    if match is None:
        return item.split(",") if "{" not in item else []
    return [match[1] + each.strip() for each in match[2].split(",") if each.strip()]


def _php(text: str) -> Names:
    body = re.sub(r"\A\s*use\s+(?:function\s+|const\s+)?", "", text).strip(" ;\n")
    match = _USE_GROUP.search(body)
    for item in _ungrouped(body) if match else body.split(","):
        path, *alias = _ALIAS.split(item.strip())
        name = path.rpartition("\\")[2]
        yield alias[0] if alias else name, Imported(name)


def _csharp(text: str) -> Names:
    match = re.match(r"\s*using\s+(\w+)\s*=\s*([\w.]+)", text)
    if match:
        name = match[2].rpartition(".")[2]
        yield match[1], Imported(name, match[2].partition(".")[0] in STANDARD_MODULES["csharp"])


_READERS = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "java": _jvm,
    "kotlin": _jvm,
    "go": _go,
    "rust": _rust,
    "php": _php,
    "csharp": _csharp,
}
