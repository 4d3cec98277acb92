"""`opx categories`: the kinds of knowledge."""

from __future__ import annotations

import click

from opx.cli.output import print_json, print_table
from opx.cli.session import Session, pass_session
from opx.operations.documents import ListCategories, list_categories


@click.command("categories")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def categories_command(session: Session, *, as_json: bool) -> None:
    """List the categories of `knowledge.yaml`: tier, trust, retention and when sources are pulled."""
    model = session.client.call(list_categories, ListCategories())
    found = model.categories
    if as_json:
        names = ("path", "description", "folders")
        print_json(
            [
                {
                    **{name: getattr(category, name) for name in names},
                    "tier": category.tier.value,
                    "trust": category.trust,
                    "retention": category.retention,
                    "schedule": category.schedule,
                    "embed": list(category.embed),
                    "default": category.path == model.default_category,
                }
                for category in found
            ]
        )
        return
    rows = [(c.path, c.tier.value, f"{c.trust:g}", c.retention, c.schedule or "-", c.description) for c in found]
    print_table(("CATEGORY", "TIER", "TRUST", "RETENTION", "SCHEDULE", "DESCRIPTION"), rows)
    click.echo(f"\nWithout any other sign a document belongs to {model.default_category}.")
