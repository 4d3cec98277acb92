"""Writes the figures of today into docs/secrets.md: `python -m tests.quality.secrets`."""

from tests.quality.secrets.measuring import PAGE, with_tables

PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
