"""Messages that Outlook saved as .msg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oxmsg import Message

from opx.formats.mail.messages import MAX_ATTACHMENTS, body_markdown
from opx.formats.sandbox.output import Job, Output


def read_msg(path: Path, job: Job, output: Output) -> None:  # noqa: ARG001 - every reader is called so
    """The text, or else the HTML, then the attachments."""
    message = Message.load(str(path))
    output.text(body_markdown(message.body or "", message.html_body or ""))
    attachments = list(message.attachments)
    for number, attachment in enumerate(attachments[:MAX_ATTACHMENTS], start=1):
        name = attachment.file_name or f"attachment {number}"
        if attachment.attached_by_value and attachment.file_bytes:
            output.attachment(attachment.file_bytes, name)
        else:
            output.unread(f"attachment {name} is another message or a link, which is not read; save it by itself")
    if len(attachments) > MAX_ATTACHMENTS:
        output.unread(f"{len(attachments) - MAX_ATTACHMENTS} more attachments are not read")
    output.finish(message.subject or "", _metadata(message))


def _metadata(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"author": message.sender or ""}
    if message.sent_date:
        found["created_at"] = found["last_updated"] = message.sent_date.isoformat()
    return {name: value for name, value in found.items() if value}
