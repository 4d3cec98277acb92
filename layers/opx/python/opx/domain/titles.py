"""Completes titles to the document's subject: a generic one (`README`, `Troubleshooting`) gets words of its path.

`Troubleshooting` of `docs/kafka/consumer/troubleshooting.md` becomes `Troubleshooting (kafka consumer)`. A document's id
is made from the title before that, also before a sentence of the text stands in place of a hash: these rules may change
without new ids.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from pathlib import PurePosixPath
from urllib.parse import unquote

MAX_TITLE = 500
"""Characters."""
MAX_NAME = 80
"""Characters of a folder's or a file's name that a title is completed by; longer ones are ids and sentences."""
PARTS = 2
"""Folders and file names that a title is completed by, counted from the end of the path."""

_NO_SUBJECT = """
    a about action actions after all an and are asked at batch be before by can com common content contents default
    description detail details do doc docs document documentation documents does en example examples faq file files
    first for frequently from general getting guide guidelines guides handbook help helpers here home how howto if
    important in index info information intro introduction is it known latest links list main manual manuals master md
    misc miscellaneous more my need net new next note notes of on or org other our overview page pages playbook
    playbooks please procedure procedures process processes purpose questions quick quickstart read readme reference
    references related runbook runbooks section see site some sop sops source sources src start started static step
    steps stream streams summary table template that the there these things this title to toc topic topics tutorial
    untitled use useful using way web webhook webhooks website welcome what when where which why wiki with www you
    your
"""
_VAGUE = frozenset(_NO_SUBJECT.split())
"""Words without a subject, in titles and in paths. They are English: a vague title in another language stays."""

_KINDS = """
    alert alerting alerts analysis app apps architecture background cause causes check checking checklist checks
    component components concepts config configuration configure context debug debugging design diagnose diagnosis
    diagnostic diagnostics error errors escalation fix fixes fixing impact incident incidents install installation
    installing instructions investigate investigation issue issues maintenance meaning mitigation module modules
    monitoring operating operation operations outage package packages postmortem postmortems prerequisites problem
    problems project projects recovery remediation requirements resolution resolve response rollback root service
    services setup severity solution solutions solve support symptom symptoms tasks tips tools troubleshoot
    troubleshooting upgrade upgrading usage verification verify workaround workarounds
"""
_VAGUE_ALONE = _VAGUE.union(_KINDS.split())
"""Words without a subject unless another word has one: also kinds of pages and of their parts."""

_WORD = re.compile(r"\w+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{0,8}~?\Z")
_ALERT_NAME = re.compile(r"(?=.*[a-z]{3})[A-Za-z][a-z]*(?:[A-Z][a-z]*\d*)+\Z")
_CODE = re.compile(r"(?=.*\d)[A-Z]{1,8}\d*(?:[-_]\d+)*\Z")
_HASH = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f][0-9a-f -]{15,}\Z")
_OPAQUE = re.compile(r"(?=.*\d)(?:[0-9a-f]{8}[0-9a-f-]*|[\d_.:-]+|.*\d{8,}.*)\Z", re.IGNORECASE)
"""Hashes, dates, numbers and addresses, which are not names."""


def of_name(name: str) -> str:
    """A file's name made readable, from which the id of a document without a title is made."""
    return PurePosixPath(name).stem.replace("-", " ").replace("_", " ").strip() or name


def readable(title: str, sentence: str) -> str:
    """The title without the mark of an object's name; a sentence of the text in place of a hash."""
    found = (one.rstrip("~ ") for one in (title, sentence))
    return next((one for one in found if one and not _HASH.match(one)), "Without a title")


def completed(title: str, path: str) -> str:
    """The title, with words of the document's path in brackets if it is generic, or if the file is named by an identifier
    (an alert's name, an error code) of which the title has no word. Unchanged if the path adds nothing."""
    if is_generic(title):
        return _with(title, _distinctive_words(path, _words(title)))
    stem = _names(path)[-1:]
    if stem and _is_identifier(stem[0]) and not _shared(stem[0], title):
        return _with(title, stem[0])
    return title


def chosen(title: str, path: str) -> str:
    """The title that `completed` made this one from."""
    before = title.rpartition(" (")[0]
    return before if before and completed(before, path) == title else title


def is_completed(title: str, path: str) -> bool:
    """True if a title is specific enough, or was completed."""
    return completed(chosen(title, path), path) == title == readable(title, "")


def repeats(heading: str, title: str) -> bool:
    """True if a heading is the document's title, or the one that it was completed from."""
    heading, title = heading.casefold(), title.casefold()
    if heading == title:
        return True
    before, _, words = title.removesuffix(")").rpartition(" (")
    return title.endswith(")") and before == heading and (is_generic(heading) or " " not in words)


def is_generic(title: str) -> bool:
    """True if no word of a title states its subject; a single letter may be a name."""
    words = _words(title)
    return max(map(len, words), default=0) > 1 and _VAGUE_ALONE.issuperset(words)


def disambiguated(titles: Sequence[str], paths: Sequence[str], labels: Sequence[Sequence[str]] = ()) -> list[str]:
    """The titles of different documents; those that several share are completed by the values of the labels (`pod=web-1`)
    that not all of these have, or else by such words of their paths or addresses."""
    groups: dict[str, list[int]] = defaultdict(list)
    for at, title in enumerate(titles):
        groups[title.casefold()].append(at)
    found = list(titles)
    for group in groups.values():
        common = frozenset.intersection(*(_path_words(paths[at]) for at in group))
        shared = set.intersection(*(set(labels[at]) for at in group)) if labels else set()
        for at in group if len(group) > 1 else ():
            own = [one.partition("=")[2] for one in labels[at] if one not in shared] if labels else []
            words = "/".join(sorted(filter(None, own), key=lambda value: ":" in value)[:PARTS])  # addresses last
            found[at] = _with(titles[at], words or _distinctive_words(paths[at], common | _words(titles[at])))
    return found


def _distinctive_words(path: str, known: Set[str]) -> str:
    """Words of the last folders and of the file's name that are neither vague nor known; "" for none."""
    names = _names(path)
    for vague in (_VAGUE_ALONE, _VAGUE):
        parts = [" ".join(_distinctive(name, vague | known)) for name in names]
        if any(parts):
            kept = list(dict.fromkeys(filter(None, reversed(parts))))[:PARTS]
            return " ".join(dict.fromkeys(" ".join(reversed(kept)).split()))
    return ""


def _path_words(path: str) -> frozenset[str]:
    return frozenset(word.casefold() for name in _names(path) for word in _distinctive(name, frozenset()))


def _with(title: str, words: str) -> str:
    whole = f"{title} ({words})"
    return whole if words and len(whole) <= MAX_TITLE else title


def _names(path: str) -> list[str]:
    """Folders and the file's name without its extension; without ids."""
    parts = [unquote(part) for part in re.split(r"[/#\\]", path.partition("?")[0].rpartition("://")[2]) if part]
    parts[-1:] = [_EXTENSION.sub("", part) for part in parts[-1:]]
    return [part for part in parts if len(part) <= MAX_NAME and not _OPAQUE.match(part)]


def _distinctive(name: str, vague: Set[str]) -> Iterator[str]:
    """The words of a name that are not vague; an identifier as a whole."""
    if _is_identifier(name):
        return iter(() if name.casefold() in vague else (name,))
    return (word for word in re.split(r"[\W_]+", name) if word and word.casefold() not in vague)


def _is_identifier(name: str) -> bool:
    return bool(_ALERT_NAME.match(name) or _CODE.match(name))


def _shared(identifier: str, title: str) -> bool:
    """True if a title has the identifier, or one of its specific words."""
    has = (_words(title) | _camel_words(title)) - _VAGUE_ALONE
    return identifier.casefold() in has or any(
        _alike(one, other) for one in _camel_words(identifier) - _VAGUE_ALONE for other in has
    )


def _alike(one: str, other: str) -> bool:
    """True if two words are equal but for an ending, as `log` and `logging` are."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) > 2 and longer.startswith(shorter))


def _camel_words(name: str) -> set[str]:
    return {word.casefold() for word in _CAMEL.findall(name)}


def _words(title: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(title.replace("_", " "))}
