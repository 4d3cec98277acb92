"""Where a redirect leads, and what is taken along."""

from __future__ import annotations

from urllib.parse import urljoin

from opx.domain.record import replace
from opx.errors import SourceRefusedError
from opx.sources.web.addresses import Target, target_of
from opx.sources.web.exchange import Message, Reply

_TAKEN_ALONG = ("accept", "accept-encoding", "accept-language", "content-type", "user-agent")
_CONDITIONS = ("if-none-match", "if-modified-since")


def redirected(message: Message, reply: Reply) -> Message:
    """The request that a redirect asks for. To another host go only headers that can't be credentials.

    Raises `ForbiddenAddressError`, and `SourceRefusedError` for one that can't be followed.
    """
    here = message.target
    try:
        there = target_of(urljoin(here.url, reply.headers["location"]))
    except ValueError as exc:
        raise SourceRefusedError(f"{here.shown}: redirected to what is no address", reply.status) from exc
    if message.method == "POST" and reply.status not in (307, 308):
        raise SourceRefusedError(f"{here.shown}: redirected to {there.shown}; set that address", reply.status)
    if _same_party(here, there):
        return replace(message, target=there)
    kept = (*_TAKEN_ALONG, *_CONDITIONS)
    return replace(message, target=there, headers={k: v for k, v in message.headers.items() if k in kept})


def _same_party(here: Target, there: Target) -> bool:
    if here.host != there.host:
        return False
    upgraded = (here.scheme, here.port, there.scheme, there.port) == ("http", 80, "https", 443)
    return upgraded or (here.scheme, here.port) == (there.scheme, there.port)
