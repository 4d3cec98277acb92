"""Names that a file takes from elsewhere, by the words of its imports."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from opx.graph.extraction.code_nodes import STANDARD_MODULES

_ALIAS = re.compile(r"\s+as\s+")
_FROM_PYTHON = re.compile(r"from\s+(\S+)\s+import\s+\(?(.*?)\)?\s*\Z", re.DOTALL)
_SCRIPT = re.compile(r"import\s+(?:type\s+)?(.*?)\s*from\s*[\"']([^\"']+)[\"']", re.DOTALL)
_REQUIRE = re.compile(r"(?:const|let|var)\s+([\w${}\s,:]+?)\s*=\s*require\(\s*[\"']([^\"']+)[\"']")
_GO = re.compile(r"(?:([\w.]+)\s+)?\"([^\"]+)\"")
_COMMENT = re.compile(r"(?://|#)[^\n]*")
_USE_GROUP = re.compile(r"([\w:\\]*)\{([^{}]*)\}")
_MAX_NAMES = 200


@dataclass(frozen=True, slots=True)
class Imported:
    """What a local name stands for. `standard`: it comes with the language; `module`: it may be one with functions."""

    name: str
    standard: bool = False
    module: bool = False


def imported(text: str, language: str) -> dict[str, Imported]:
    """Local names of one import, of which `text` is what it says."""
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
