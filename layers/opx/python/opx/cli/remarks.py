"""What is to be said about how documents were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import click

from opx.cli.output import plural
from opx.domain.remarks import Remark, RemarkKind

ANY = "any"
KINDS = (ANY, *(kind.value for kind in RemarkKind))


def kind_name(kind: RemarkKind) -> str:
    """`masked_secret` as `masked secret`."""
    return kind.value.replace("_", " ")


def remark_line(remark: Remark) -> str:
    """`masked secret: line 12: AWS access key id (fingerprint 3f9a)`."""
    style = "red" if remark.kind is RemarkKind.SUSPECTED_INSTRUCTION else "yellow"
    return f"{click.style(kind_name(remark.kind), fg=style)}: {remark.text}"


def has_remark(remarks: Iterable[Remark], kind: str | None) -> bool:
    """Whether there is one of this kind; `any` is every kind, and None asks for nothing."""
    return not kind or any(kind in (ANY, remark.kind.value) for remark in remarks)


def remarks_summary(documents: Iterable[Iterable[Remark]]) -> str:
    """`2 documents have remarks: 2 with masked secret, 1 with unread part`; "" if none has any."""
    kinds = [{remark.kind for remark in remarks} for remarks in documents]
    counts = Counter(kind for found in kinds for kind in found)
    if not counts:
        return ""
    documents_with = sum(bool(found) for found in kinds)
    verb = "has" if documents_with == 1 else "have"
    parts = ", ".join(f"{count:,} with {kind_name(kind)}" for kind, count in sorted(counts.items()))
    return f"{plural(documents_with, 'document')} {verb} remarks: {parts}; see them with `opx list --remarks any`"
