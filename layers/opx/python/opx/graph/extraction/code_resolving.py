"""Calls as they are written to references of what is called, as far as one file tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from opx.graph.extraction import code_nodes as nodes
from opx.graph.extraction.code_reading import Call, CodeFile, Definition

IN_FILE, BY_IMPORT, BY_VARIABLE, BY_SHAPE = 0.95, 0.8, 0.7, 0.6
"""How sure a call's target is: defined in the same file, imported, called on a variable of that class (another function
may have one of the same name), or only named as classes are."""

Target = tuple[str, str]
"""What is called: `class`, `method` or `function`, and its name."""

Found = tuple[Target, float] | None

_MAX_BASES = 20


@dataclass(frozen=True, slots=True)
class Resolved:
    """A call: what is called, and the name that it is called by."""

    caller: Definition
    target: Target
    name: str
    confidence: float


@dataclass(slots=True)
class Resolver:
    """Knows the definitions of one file. What it can't tell it leaves out: no edge is better than a wrong one."""

    file: CodeFile
    _classes: set[str] = field(default_factory=set)
    _functions: set[str] = field(default_factory=set)
    _methods: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _bases: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for one in self.file.definitions:
            if one.kind == "class":
                self._classes.add(one.name)
            elif one.kind == "method":
                self._methods[one.owner].add(one.name)
            else:
                self._functions.add(one.name)
        for name, base in self.file.bases:
            self._bases[name].append(base)

    def bases(self) -> Iterator[tuple[str, str]]:
        """Classes and what they extend, by the names that those have where they are defined."""
        for name, base in dict.fromkeys(self.file.bases):
            imported = self.file.imports.get(base)
            known = imported.name if imported else base
            if known != name and known not in nodes.STANDARD_CLASSES and known not in ("object", "type"):
                yield name, known

    def calls(self) -> Iterator[Resolved]:
        """Each target once for each caller."""
        seen: set[tuple[Definition, Target]] = set()
        for call in self.file.calls:
            found = self._target(call)
            if found and (call.caller, found[0]) not in seen and found[0] != (call.caller.kind, call.caller.value):
                seen.add((call.caller, found[0]))
                yield Resolved(call.caller, found[0], call.parts[-1], found[1])

    def _target(self, call: Call) -> Found:
        *path, name = call.parts
        if len(name) > nodes.MAX_NAME:
            return None
        if call.creates:
            return self._class(name, shaped=True)
        if not path:
            return self._bare(call.caller, name)
        if path == ["self"] or path[0] in nodes.SELF:
            return self._own(call.caller, path[1:], name)
        if path[0] in nodes.PARENT:
            return self._inherited(call.caller.owner, name) if len(path) == 1 else None
        return self._qualified(path, name)

    def _bare(self, caller: Definition, name: str) -> Found:
        """A method of the same class where the language doesn't ask for `this`, a function, or a class."""
        method = self._method(caller.owner, name) if caller.owner and self.file.language not in _EXPLICIT else None
        if method:
            return method, IN_FILE
        if name in self._functions:
            return ("function", name), IN_FILE
        if name in self._classes:
            return ("class", name), IN_FILE
        imported = self.file.imports.get(name)
        if imported is None or imported.standard:
            return None
        kind = "class" if nodes.CLASS_SHAPED.match(imported.name) else "function"
        return (kind, imported.name), BY_IMPORT

    def _own(self, caller: Definition, path: list[str], name: str) -> Found:
        """`self.name()`, or `self.field.name()`."""
        if path:
            return self._of_variable(path[0], name) if len(path) == 1 else None
        method = self._method(caller.owner, name)
        return (method, IN_FILE) if method else None

    def _inherited(self, owner: str, name: str) -> Found:
        for base in self._bases.get(owner, ()):
            if method := self._method(base, name):
                return method, IN_FILE
        return None

    def _method(self, owner: str, name: str) -> Target | None:
        """In the class, or in those of the file that it extends."""
        waiting, seen = [owner], set[str]()
        while waiting and len(seen) < _MAX_BASES:
            current = waiting.pop(0)
            if current in seen:
                continue
            seen.add(current)
            if name in self._methods.get(current, ()):
                return "method", f"{current}.{name}"
            waiting.extend(self._bases.get(current, ()))
        return None

    def _qualified(self, path: list[str], name: str) -> Found:
        """`Class.name()`, `variable.name()` or `module.name()`."""
        first = path[-1]
        if first in self._classes:
            return self._method(first, name) or ("method", f"{first}.{name}"), IN_FILE
        variable = self._of_variable(path[0], name) if len(path) == 1 else None
        if variable:
            return variable
        imported = self.file.imports.get(path[0])
        if imported is not None and imported.standard:
            return None
        if nodes.CLASS_SHAPED.match(first) and (found := self._class(first, shaped=self._shows_classes)):
            return ("method", f"{found[0][1]}.{name}"), min(found[1], BY_IMPORT)
        if imported is None or not imported.module or name.lower() in nodes.COMMON_NAMES:
            return None
        return ("class" if self._is_class(name) else "function", name), BY_IMPORT

    def _is_class(self, name: str) -> bool:
        return self.file.language != "go" and bool(nodes.CLASS_SHAPED.match(name))

    def _of_variable(self, variable: str, name: str) -> Found:
        """A method of the class that the variable is declared with."""
        found = self._class(self.file.variables.get(variable.lstrip("$"), ""), shaped=self._shows_classes)
        if found is None:
            return None
        owner = found[0][1]
        return self._method(owner, name) or ("method", f"{owner}.{name}"), min(found[1], BY_VARIABLE)

    def _class(self, name: str, *, shaped: bool) -> Found:
        if name in self._classes:
            return ("class", name), IN_FILE
        imported = self.file.imports.get(name)
        if imported is not None:
            return None if imported.standard else (("class", imported.name), BY_IMPORT)
        if shaped and nodes.CLASS_SHAPED.match(name) and name not in nodes.STANDARD_CLASSES:
            return ("class", name), BY_SHAPE
        return None

    @property
    def _shows_classes(self) -> bool:
        """Whether classes of the same package are there without an import."""
        return self.file.language not in ("python", "javascript", "typescript", "tsx")


_EXPLICIT = frozenset(("python", "javascript", "typescript", "tsx", "go", "rust", "php", "bash", "powershell"))
"""Languages in which a method of the same class is called by `self` or `this` alone."""
