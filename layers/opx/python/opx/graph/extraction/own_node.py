"""Determines the node that a document is about, and reads references from fields and text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

from opx.domain.documents import KnowledgeDocument
from opx.domain.graph import NodeStatement, node_type
from opx.domain.knowledge import Tier
from opx.errors import InvalidReferenceError
from opx.formats.registry import family_of
from opx.graph.names import normalised, reference
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.ingestion.object_names import pulled_key

_NAMESPACES = {
    "runbooks": "runbook",
    "procedures": "runbook",
    "architecture": "document",
    "postmortems": "incident",
    "operations/incidents": "incident",
    "operations/changes": "change",
    "operations/alerts": "alert_event",
}
"""Namespaces by the last of these folders in the category's path, or else in the document's folders. A folder `alerts` among
runbooks doesn't count. Documents of other categories have the namespace `document`."""

_IDS = {
    "incident": ("incident", "incidents", "incident_id", "id"),
    "change": ("change", "change_id", "id"),
    "alert_event": ("id",),
}
"""Fields with the id of the node, if they have exactly one value."""

_PAGES = (".md", ".markdown")
"""Extensions that are left out of references."""

_PAGE = re.compile(r"\.(?:md|markdown|html?|rst|adoc|asciidoc|txt|pdf|docx)\Z", re.IGNORECASE)
_INDEXES = ("index", "readme", "_index")

_RECORD = re.compile(r"[A-Za-z]{2,12}[-_]?\d{1,12}")
_TITLED = re.compile(r"([A-Z]{2,10}-\d{1,12})\b")
_RECORDS = ("operations/changes", "operations/incidents")
"""Categories of records, whose titles often begin with their ids. Not of pages: links between these use paths."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_CVE = re.compile(r"CVE-\d{4}-\d{4,9}", re.IGNORECASE)
_RFC = re.compile(r"rfc(\d{1,5})", re.IGNORECASE)
_JIRA = re.compile(r"https?://.*/browse/([A-Z][A-Z0-9_]+-\d+)")
_CONFLUENCE = re.compile(r"https?://.*/(?:wiki|pages|display|spaces)/.*")
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull|discussions)/(\d+)")
_ATTACK = re.compile(r"(T|M|G|S|C|TA|DET)\d{4}(?:\.\d{3})?")
_ATTACK_KINDS = {
    "T": "technique",
    "M": "mitigation",
    "G": "group",
    "S": "software",
    "C": "campaign",
    "TA": "tactic",
    "DET": "detection",
}


def own_reference(document: KnowledgeDocument, facts: Mapping[str, Sequence[str]]) -> str:
    """The normalised reference of the node that the document is about; the same for the same key and metadata.

    Of internal documents the field `entity` states it; else it is derived from the connector's address, an id of the
    document's type, or its path. Several documents can be about one node.
    """
    stated = facts.get("entity", ()) if document.tier is Tier.INTERNAL else ()
    entity = read_reference(stated[0], "") if len(stated) == 1 and has_namespace(stated[0].strip()) else ""
    known = entity or _by_identity(document) or _by_id(document, facts)
    return known or reference_of_source(document.key.source, document.category)


def reference_of_source(source: str, category: str = "") -> str:
    """The reference of the document with this source (`documents/runbooks/ingress-502.md`): its path below the folder of its
    category. Without a category the folders determine the namespace, and other pages are runbooks.

    The location of the ingested file doesn't count, so that a laptop and a bucket have the same references.
    """
    path = PurePosixPath(source.removeprefix(DOCUMENTS_FOLDER))
    folders = path.parts[:-1]
    namespace, below = _namespace_of(folders, category)
    if family_of(path.name) == "code":
        below = below[2:] if below[:1] == ("sources",) else below
        return make_reference("file", "/".join((*below, path.name)))
    name = path.stem if path.suffix.lower() in _PAGES or namespace not in ("runbook", "document") else path.name
    if namespace in _IDS and _RECORD.fullmatch(name):
        return make_reference(namespace, name)
    return make_reference(namespace, "/".join((*below, name)))


def runbook_of(text: str) -> str:
    """The reference of a runbook from its name or path; "" for an address."""
    text = text.strip()
    if "://" in text:
        return ""
    if has_namespace(text):
        return read_reference(text, "runbook")
    path = "/".join(part for part in PurePosixPath(text).parts if part not in ("..", "."))
    return reference_of_source(path) if path else ""


def runbook_at(location: str) -> str:
    """The reference of the runbook that an alert's annotation names: a path as in `runbook_of`, an address by its last parts
    (`https://wiki/runbooks/kafka/lag.html#causes` -> `runbook:kafka/lag`, `https://wiki/ops/KafkaLag` ->
    `runbook:kafkalag`). "" for an address without one, and for a template."""
    if "{{" in re.split(r"[?#]", location, maxsplit=1)[0]:
        return ""
    if "://" not in location:
        return runbook_of(location.partition("#")[0])
    parts = page_parts(location)
    if not parts:
        return ""
    known = _last(parts[:-1])[0]
    return reference_of_source("/".join(parts) + _PAGES[0]) if known else make_reference("runbook", parts[-1])


def page_parts(location: str) -> tuple[str, ...]:
    """The folders and the name of the page at a path or an address, without the extension; an index has the name of its
    folder."""
    path = re.split(r"[?#]", location, maxsplit=1)[0]
    if "://" in path:
        path = path.partition("://")[2].partition("/")[2]
    parts = [part for part in unquote(path).split("/") if part not in ("", ".", "..")]
    if not parts:
        return ()
    name = _PAGE.sub("", parts[-1])
    return tuple(parts[:-1]) if name.lower() in _INDEXES and parts[:-1] else (*parts[:-1], name)


def is_runbook_category(category: str) -> bool:
    """True if documents of this category are runbooks."""
    return _NAMESPACES.get(_last(tuple(category.split("/")))[0]) == "runbook"


def _namespace_of(folders: tuple[str, ...], category: str) -> tuple[str, tuple[str, ...]]:
    """The namespace, and the folders below those that determine it."""
    if not category:
        name, end = _last(folders)
        return _NAMESPACES.get(name, "runbook"), folders[end:]
    parts = tuple(category.split("/"))
    namespace = _NAMESPACES.get(_last(parts)[0], "document")
    for at in range(len(folders) - len(parts) + 1):
        if folders[at : at + len(parts)] == parts:
            return namespace, folders[at + len(parts) :]
    end = max((at for at, folder in enumerate(folders, 1) if folder in parts), default=0)
    return namespace, folders[end:]


def _last(parts: Sequence[str]) -> tuple[str, int]:
    """The last name of `_NAMESPACES` in a path, and the index after it; "" and 0 without one."""
    for end in range(len(parts), 0, -1):
        for size in (2, 1):
            name = "/".join(parts[max(0, end - size) : end])
            if name in _NAMESPACES:
                return name, end
    return "", 0


def _by_id(document: KnowledgeDocument, facts: Mapping[str, Sequence[str]]) -> str:
    namespace = _NAMESPACES.get(_last(document.category.split("/"))[0], "")
    for field in _IDS.get(namespace, ()):
        if len(found := facts.get(field, ())) == 1:
            return read_reference(found[0], namespace)
    match = _TITLED.match(document.title) if document.category in _RECORDS else None
    return make_reference(namespace, match[1]) if match else ""


def _by_identity(document: KnowledgeDocument) -> str:
    """The reference of a document about a node with an identity outside of the corpus."""
    key = pulled_key(document.key.source, document.category) or PurePosixPath(document.key.source).stem
    name = PurePosixPath(key).stem
    if document.category == "security/cve":
        match = _CVE.match(name) or _CVE.match(document.title)
        return make_reference("cve", match[0]) if match else ""
    if document.category == "security/mitre":
        return _of_attack(document)
    if document.category == "standards/rfc":
        match = _RFC.fullmatch(name)
        return make_reference("rfc", match[1]) if match else ""
    return _of_connector(document, key)


def _of_connector(document: KnowledgeDocument, key: str) -> str:
    """The reference of a document from a connector, by its key and address."""
    address = document.source_uri
    if "commit" in document.tags and _COMMIT.fullmatch(key):
        return make_reference("commit", key)
    if (match := _JIRA.fullmatch(address)) and match[1] == key:
        return make_reference("jira", key)
    if key.isdecimal() and _CONFLUENCE.fullmatch(address):
        return make_reference("confluence", key)
    match = _GITHUB.fullmatch(address)
    return make_reference("github", f"{match[1]}#{match[2]}") if match else ""


def _of_attack(document: KnowledgeDocument) -> str:
    for tag in document.tags:
        if match := _ATTACK.fullmatch(tag):
            return make_reference(_ATTACK_KINDS[match[1]], tag)
    return ""


# -- references

_SHAPES = (
    ("cve", re.compile(r"CVE-\d{4}-\d{4,9}", re.IGNORECASE)),
    ("change", re.compile(r"(?:CHG|CHANGE|CRQ)[-_]?\d{1,12}", re.IGNORECASE)),
    ("incident", re.compile(r"(?:INC|INCIDENT)[-_]?\d{1,12}", re.IGNORECASE)),
    ("technique", re.compile(r"T\d{4}(?:\.\d{3})?")),
    ("mitigation", re.compile(r"M\d{4}")),
    ("jira", re.compile(r"[A-Z][A-Z0-9_]{1,14}-[1-9]\d{0,8}")),
    ("commit", re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])(?:[0-9a-f]{7,12}|[0-9a-f]{40})")),
)
"""Namespaces of identifiers by their shape: the first match counts."""

_NAMESPACED = re.compile(r"[A-Za-z][\w-]{0,38}:(?![:/\s]).*\S", re.DOTALL)


_EVENTS = ("change:", "incident:")

_ALERT = re.compile(r"(?:etcd)?[A-Z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_VERSIONED = re.compile(
    r"(?P<name>.*\S)(?:[ @:]+|/(?=v?\d+\.\d))v?(?P<version>\d\S*(?: (?:sp|p|r|u|rev|update)[ _]?\d\S*)?)", re.IGNORECASE
)


def reference_of_identifier(text: str) -> str:
    """The reference of an identifier with a known shape; "" for other strings."""
    for namespace, shape in _SHAPES:
        if shape.fullmatch(text):
            return make_reference(namespace, text)
    return ""


def make_reference(namespace: str, value: str) -> str:
    """The reference, or "" for a value that none can be made of."""
    try:
        return reference(namespace, value)
    except InvalidReferenceError:
        return ""


def has_namespace(text: str) -> bool:
    """True for the form of a reference: `service:checkout`, but not `https://checkout` or `std::map`."""
    return bool(_NAMESPACED.fullmatch(text))


def read_reference(text: str, default: str) -> str:
    """The reference in a field's value, in the default namespace if it has none; "" for an invalid one."""
    text = text.strip()
    if not has_namespace(text):
        return make_reference(default, text)
    try:
        return normalised(text)
    except InvalidReferenceError:
        return ""


def read_id(text: str, default: str) -> str:
    """As `read_reference`, for fields about changes and incidents: `change CHG-12` contains the id."""
    words = (reference_of_identifier(word.strip(".,;:()")) for word in text.split())
    return (
        reference_of_identifier(text.strip())
        or next((key for key in words if key.startswith(_EVENTS)), "")
        or read_reference(text, default)
    )


def product_key(text: str) -> str:
    """The reference of a product in the form of its CPE name: `Apache/HTTP Server` -> `product:apache/http_server`; "" for a
    value without a letter."""
    value = text.partition(":")[2] if text.lower().startswith("product:") else text
    return make_reference("product", "_".join(value.split())) if any(map(str.isalpha, value)) else ""


def value_of(key: str) -> str:
    """The reference without its namespace."""
    return key.partition(":")[2]


def is_alert_name(text: str) -> bool:
    """True for the form of an alert's name: two or more capitalised words in one, such as KubePodCrashLooping."""
    return bool(_ALERT.fullmatch(text)) and sum(map(str.isupper, text)) > 1 and any(map(str.islower, text))


def named_node(name: str, key: str, chunk_ids: tuple[str, ...] = (), *, declared: bool = False) -> NodeStatement:
    """A node with its name as written."""
    return NodeStatement(key, node_type(key), {"name": name}, chunk_ids, declared)


def product_of(text: str) -> tuple[str, str]:
    """The reference and the version ("" for none) of a product: `nginx 1.24.0`, `fortinet/fortios@7.0.13`."""
    match = _VERSIONED.fullmatch(_without_namespace(text))
    return product_key(name_of_product(text)), match["version"] if match else ""


def name_of_product(text: str) -> str:
    """The name of a product as written, without its version."""
    match = _VERSIONED.fullmatch(_without_namespace(text))
    return match["name"].rstrip(" @:") if match else _without_namespace(text)


def _without_namespace(text: str) -> str:
    line = " ".join(text.split())
    return line.partition(":")[2].strip() if line.lower().startswith("product:") else line
