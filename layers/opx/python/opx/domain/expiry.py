"""How long documents may be shown."""

from __future__ import annotations

from opx.domain.documents import KnowledgeDocument
from opx.domain.knowledge import Category, KnowledgeModel, Tier
from opx.domain.times import day_number, day_text
from opx.errors import UnknownCategoryError

_LAST_DAY = day_number("9999-12-31") or 0
"""Later ones can't be written."""


def expiry_day(document: KnowledgeDocument, knowledge: KnowledgeModel) -> str:
    """The day from which on a version is not to be shown: the one that it gives itself, or else the day of its last
    update and what its category keeps documents for. "" for what is kept for good."""
    if document.expires:
        return document.expires
    return expiry_of(document.category, document.last_updated, knowledge)


def expiry_of(category: str, last_updated: str, knowledge: KnowledgeModel) -> str:
    """What the category's retention makes of a document's last update; "" for good, and for a category that is gone."""
    try:
        days = knowledge.category(category).retention_days
    except UnknownCategoryError:
        return ""
    updated = day_number(last_updated)
    return "" if days is None or updated is None else day_text(min(updated + days, _LAST_DAY))


def fetched_expiry(category: Category, today: str) -> str:
    """The day on which a copy of a page of the internet is over that is fetched `today`: what counts is how old the copy is,
    and not how long ago its author changed it. "" for other tiers, and for what is kept for good."""
    fetched, days = day_number(today), category.retention_days
    if category.tier is not Tier.INTERNET or days is None or fetched is None:
        return ""
    return day_text(min(fetched + days, _LAST_DAY))
