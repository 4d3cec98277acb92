"""Extracts mentions from passages: identifiers with a known shape, and names that documents declared.

Many services are named by everyday words: `search`, `orders`. Such a word counts only where the text shows that it is a
name: alone in back quotes, next to a word for its type (the orders service), or as the value of a field (app=orders).
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from threading import Lock
from typing import Protocol

from opx.domain.documents import DocumentChunk
from opx.domain.graph import EdgeStatement, Node, NodeStatement, node_type
from opx.domain.scopes import Scope
from opx.graph.extraction import front_matter, inventory
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.own_node import make_reference
from opx.graph.extraction.relation_lines import PAGES
from opx.ports import Clock

log = logging.getLogger(__name__)

NAMED_TYPES = ("service", "host", "alert", "product", "team", "class")
"""Types of nodes that are searched by name once a document declared them."""

LISTED_TYPES = frozenset(NAMED_TYPES) - {"class"}

MAX_NAMES = 10_000
"""Names of a type that documents of one scope may use; the first by key."""

SECONDS = 60.0
"""Seconds until a name that another process declared is known."""

_LISTING_RULES = frozenset((front_matter.RULE, inventory.RULE))
PATTERN_RULE, NAME_RULE = "pattern", "name"
BY_PATTERN, BY_NAME = 0.9, 0.8

_PATTERNS = re.compile(
    r"(?<![\w./-])(?:(?P<cve>CVE-\d{4}-\d{4,9})|(?P<technique>T1\d{3}(?:\.\d{3})?)|(?P<jira>[A-Z][A-Z0-9]{1,9}-[1-9]\d{0,6}))"
    r"(?![\w-]|\.\d)"
)
_NOT_PROJECTS = (
    "AES AMD ANSI ARM AZ BS CAPEC CHANGE CHG CIS CM COVID CP CPE CRC CRQ CVE CVSS CWE DB DIN EC EN FIPS FY GHSA "
    "GMT GP GPT HA HTTP IEC IEEE INC INCIDENT IP IPV ISO JDK JEP JSR KB LC LTO LTS MD MS MTTR NIST ORA OWASP PCI "
    "PEP PG PHP PR RAID RC RFC RHEL RPO RTO SAE SEV SHA SLA SLO SOC SP SQL SSE SSL TCP TLS UDP USB USD UTC UTF "
    "WCAG WP WPA XP ZONE"
)
_NO_PROJECTS = frozenset(_NOT_PROJECTS.split())
"""Prefixes before a number that aren't keys of Jira projects."""

_WORD = re.compile(r"[^\W_]+(?:[-_.@][^\W_]+)*")
_BETWEEN_WORDS = re.compile(r"[ \t/]+|[ \t]*\n[ \t]*")
_BESIDE = re.compile(r"[ \t]*[:=/]?[ \t]*[`\"'*]{0,3}[ \t]*\n?[ \t]*")
_PLAIN = re.compile(r"[^\W\d_]+\Z")
_INNER_CAPITAL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_SENTENCE_START = re.compile(r"(?:\A|[.!?:|>\n#*-])[\s*_`|#>-]*\Z")
_VERSION = re.compile(r"v?\d+(?:\.\d+)*\Z")
_MIN_LETTERS = 3
_MAX_WORDS = 6

_KIND_WORDS = {
    "service": "service services svc app apps application component microservice deployment deploy deployments pod pods",
    "host": "host hosts hostname server servers node nodes machine instance vm",
    "alert": "alert alerts alarm alertname",
    "product": "product version package",
    "team": "team teams squad group oncall owner",
    "class": "class classes interface",
}
_KINDS = {kind: frozenset(words.split()) for kind, words in _KIND_WORDS.items()}
"""Words that state the type of a name beside them."""


def listed(_: Material, findings: Findings) -> None:
    """A document rule that declares the nodes in the metadata of internal documents and in inventories, so that their names
    are searched in other documents. Must run after the rules that read those."""
    stated = (one for one in findings.statements if isinstance(one, EdgeStatement) and one.rule in _LISTING_RULES)
    keys = dict.fromkeys(key for one in stated for key in (one.source, one.target))
    findings.add(*(NodeStatement(key, node_type(key), declared=True) for key in keys if node_type(key) in LISTED_TYPES))


def patterned(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: own -mentions-> CVEs, ATT&CK techniques and Jira issues in the passage."""
    if not material.own:
        return
    for match in _PATTERNS.finditer(chunk.content):
        namespace, text = str(match.lastgroup), match[0]
        if namespace == "jira" and text.partition("-")[0] in _NO_PROJECTS:
            continue
        key = make_reference(namespace, text)
        if key and key != material.own:
            where = (chunk.chunk_id,)
            findings.add(EdgeStatement(material.own, "mentions", key, where, rule=PATTERN_RULE, confidence=BY_PATTERN))


def without_redundant(edges: Collection[EdgeStatement]) -> list[EdgeStatement]:
    """The edges without mentions found in text of nodes to which the document has a more specific edge."""
    related = {frozenset((one.source, one.target)) for one in edges if not _is_found(one)}
    return [one for one in edges if not (_is_found(one) and frozenset((one.source, one.target)) in related)]


def _is_found(edge: EdgeStatement) -> bool:
    return edge.edge_type == "mentions" and edge.rule in (PATTERN_RULE, NAME_RULE)


class NodesOfType(Protocol):
    """The method of the graph's store that name lookup needs."""

    def of_type(
        self, scopes: Sequence[str], node_type: str, /, *, limit: int = 1_000, declared: bool = False
    ) -> list[Node]:
        """Nodes of a type in these scopes."""


Aliases = Callable[[Sequence[str]], Iterable[str]]
"""Returns the aliases in these scopes."""


def scopes_that_name(scope: Scope) -> tuple[str, ...]:
    """The scopes whose nodes a document of this scope may mention: the global one, its client's and its own. Group scopes are
    left to queries, as a project may move between groups."""
    return tuple(dict.fromkeys((Scope().key, Scope(scope.client_id).key, scope.key)))


@dataclass(slots=True)
class _Known:
    dictionary: Dictionary
    until: float


@dataclass(eq=False)
class KnownNames:
    """Finds declared names in passages. The names are cached for `seconds` per scope."""

    nodes: NodesOfType
    aliases: Aliases = lambda _: ()
    _: KW_ONLY
    clock: Clock = time.monotonic
    seconds: float = SECONDS
    _known: dict[tuple[str, ...], _Known] = field(init=False, default_factory=dict)
    _lock: Lock = field(init=False, default_factory=Lock)

    def mentions(self, material: Material, chunk: DocumentChunk, findings: Findings) -> None:
        """A chunk rule: own -mentions-> named nodes; page -documents-> classes. Raises `StoreUnavailableError`."""
        if not material.own:
            return
        dictionary = self.dictionary(material.document.key.scope)
        findings.add(*mentioned(material.own, chunk, dictionary))

    def dictionary(self, scope: Scope) -> Dictionary:
        """The names that documents of this scope may use."""
        scopes = scopes_that_name(scope)
        with self._lock:
            known, now = self._known.get(scopes), self.clock()
            if known is None or known.until <= now:
                self._known = {each: one for each, one in self._known.items() if one.until > now}
                known = self._known[scopes] = _Known(self._read(scopes), self.clock() + self.seconds)
            return known.dictionary

    def unknown(self, scope: Scope, keys: Iterable[str]) -> list[str]:
        """Those of these names that documents of this scope may not use yet. Raises `StoreUnavailableError`."""
        dictionary = self.dictionary(scope)
        return [key for key in keys if key not in dictionary]

    def declare(self, scope: Scope, keys: Collection[str]) -> None:
        """Add these names of a scope to the cache."""
        with self._lock:
            for scopes, known in self._known.items():
                if scope.key in scopes:
                    known.dictionary.add(keys)

    def _read(self, scopes: tuple[str, ...]) -> Dictionary:
        dictionary = Dictionary()
        for kind in NAMED_TYPES:
            nodes = self.nodes.of_type(scopes, kind, limit=MAX_NAMES, declared=True)
            dictionary.add(node.key for node in nodes)
            if len(nodes) >= MAX_NAMES:
                log.warning(
                    "documents of %s are searched for the first %d names of type %s alone", scopes[-1], MAX_NAMES, kind
                )
        dictionary.add(key for key in self.aliases(scopes) if node_type(key) in NAMED_TYPES)
        return dictionary


def mentioned(own: str, chunk: DocumentChunk, dictionary: Dictionary) -> list[EdgeStatement]:
    """Edges from a document to the nodes that a passage names, except its own. Pages document classes, all else is a mention;
    code and commits have edges to classes from their syntax."""
    found = []
    for key in dictionary.found_in(chunk.content):
        is_class = node_type(key) == "class"
        if key != own and (not is_class or node_type(own) in PAGES):
            kind = "documents" if is_class else "mentions"
            found.append(EdgeStatement(own, kind, key, (chunk.chunk_id,), rule=NAME_RULE, confidence=BY_NAME))
    return found


@dataclass(frozen=True, slots=True)
class _Name:
    """A name as lower-case words; `plain` if it may as well be an ordinary word."""

    key: str
    type: str
    words: tuple[str, ...]
    plain: bool


_Word = re.Match[str]


class Dictionary:
    """Names indexed by their first word, so that the cost is independent of the number of names."""

    def __init__(self) -> None:
        self._names: dict[str, list[_Name]] = defaultdict(list)
        self._keys: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self._keys:
                continue
            self._keys.add(key)
            for words in spellings(key):
                self._names[words[0]].append(_Name(key, node_type(key), words, _is_plain(words)))

    def found_in(self, text: str) -> list[str]:
        """The keys that the text names, each once, in order of occurrence."""
        if self._names.keys().isdisjoint(map(str.lower, _WORD.findall(text))):  # most texts
            return []
        words = list(_WORD.finditer(text))
        found: dict[str, None] = {}
        for at, word in enumerate(words):
            for name in self._names.get(word[0].lower(), ()):
                if name.key not in found and _stands(name, text, words, at):
                    found[name.key] = None
        return list(found)


def spellings(key: str) -> Iterator[tuple[str, ...]]:
    """The words of a node's name in lower case: of a product also without the vendor."""
    value = key.partition(":")[2]
    texts = [value]
    if node_type(key) == "product" and "/" in value:
        texts.append(value.rpartition("/")[2].replace("_", " "))
    for text in dict.fromkeys(texts):
        words = tuple(match[0].lower() for match in _WORD.finditer(text))
        if 0 < len(words) <= _MAX_WORDS:
            yield words


def _is_plain(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and (len(words[0]) < _MIN_LETTERS or words[0].isdecimal() or bool(_PLAIN.match(words[0])))


def _stands(name: _Name, text: str, words: list[_Word], at: int) -> bool:
    """True if the words from position `at` are this name, and are used as a name."""
    last = at + len(name.words) - 1
    if last >= len(words) or any(words[at + n][0].lower() != one for n, one in enumerate(name.words)):
        return False
    if any(not _BETWEEN_WORDS.fullmatch(text, words[n].end(), words[n + 1].start()) for n in range(at, last)):
        return False
    start, end = words[at].start(), words[last].end()
    if not name.plain and name.type != "class":
        return True
    return not _is_part_of_path(text, start, end) and _shown(name, text, words, (at, last), (start, end))


def _shown(name: _Name, text: str, words: list[_Word], span: tuple[int, int], offsets: tuple[int, int]) -> bool:
    """True if the text shows that a plain word is a name."""
    (at, last), (start, end) = span, offsets
    if text[start - 1 : start] == "`" and text[end : end + 1] == "`":
        return True
    if name.type != "class" and _INNER_CAPITAL.search(words[at][0]):
        return True
    if _beside(name, text, words, at, last):
        return True
    return name.type == "product" and _is_proper(text, words, at, last)


def _beside(name: _Name, text: str, words: list[_Word], at: int, last: int) -> bool:
    kinds = _KINDS.get(name.type, frozenset())
    before = words[at - 1] if at else None
    if before and before[0].lower() in kinds and _BESIDE.fullmatch(text, before.end(), words[at].start()):
        # "this service orders" would be a verb; a colon, a quote or a slash makes it a name
        return not text[before.end() : words[at].start()].isspace() or before[0].lower() not in ("service", "app")
    after = words[last + 1] if last + 1 < len(words) else None
    return bool(
        after
        and after[0].lower() in kinds
        and re.fullmatch(r"[`*\"]{0,3}[ \t]+", text[words[last].end() : after.start()])
    )


def _is_proper(text: str, words: list[_Word], at: int, last: int) -> bool:
    """True for a product before its version, or with a capital letter within a sentence."""
    after = words[last + 1][0] if last + 1 < len(words) else ""
    if _VERSION.match(after) and text[words[last].end() : words[last + 1].start()] == " ":
        return True
    start = words[at].start()
    return words[at][0][:1].isupper() and not _SENTENCE_START.search(text, max(0, start - 40), start)


def _is_part_of_path(text: str, start: int, end: int) -> bool:
    """True within a path, a variable or an option, where the word names something else."""
    return text[end : end + 1] == "/" or text[start - 1 : start] in ("\\", "$", "%", "-")
