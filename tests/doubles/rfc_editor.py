"""The RFC Editor's index and texts on 127.0.0.1."""

from __future__ import annotations

from xml.sax.saxutils import escape

from tests.doubles.misbehaving_site import MisbehavingSite

TEXT = """\
Network Working Group                                          A. Author
Request for Comments: {number}                                 Some Company
Category: Standards Track                                       May 1996

                        A Protocol of Our Own

Abstract

   This is about RFC {number}.

1.  Introduction

   The protocol does something.
"""


class RfcEditor:
    """Entries by number; `publish` writes the index. Texts have a version of their own, which never changes."""

    def __init__(self, site: MisbehavingSite) -> None:
        self.site = site
        self.entries: dict[int, str] = {}

    def rfc(
        self,
        number: int,
        title: str = "A Protocol",
        *,
        status: str = "PROPOSED STANDARD",
        first_status: str = "",
        keywords: tuple[str, ...] = (),
        text: str = TEXT,
        formats: tuple[str, ...] = ("TXT", "HTML"),
        authors: tuple[str, ...] = ("A. Author", "B. Editor"),
        **others: tuple[str, ...],
    ) -> None:
        """Set an RFC; `others` are such as obsoleted_by=("RFC9110",)."""
        named = "".join(
            f"<{name.replace('_', '-')}>{''.join(f'<doc-id>{each}</doc-id>' for each in ids)}</{name.replace('_', '-')}>"
            for name, ids in others.items()
        )
        self.entries[number] = (
            f"<rfc-entry><doc-id>RFC{number:04d}</doc-id><title>{escape(title)}</title>"
            f"{''.join(f'<author><name>{escape(each)}</name><title>Editor</title></author>' for each in authors)}"
            "<date><month>May</month><year>1996</year></date>"
            f"<format>{''.join(f'<file-format>{each}</file-format>' for each in formats)}</format>"
            f"<keywords>{''.join(f'<kw>{escape(each)}</kw>' for each in keywords)}</keywords>"
            "<abstract><p>What the index says.</p></abstract>"
            f"{named}<current-status>{status}</current-status>"
            f"<publication-status>{first_status or status}</publication-status><stream>IETF</stream></rfc-entry>"
        )
        if formats and text:
            self.site.page(f"/rfc/rfc{number}.txt", text.format(number=number), kind="text/plain", etag=f'"{number}"')

    def publish(self, *, etag: str = "") -> None:
        """Write the index as it is now."""
        others = "".join(f"<{kind}><doc-id>RFC0014</doc-id></{kind}>" for kind in ("bcp-entry", "rfc-not-issued-entry"))
        entries = "".join(entry for _, entry in sorted(self.entries.items()))
        body = f'<?xml version="1.0"?><rfc-index xmlns="https://www.rfc-editor.org/rfc-index">{others}{entries}</rfc-index>'
        self.site.page("/rfc-index.xml", body, kind="application/xml", etag=etag)
