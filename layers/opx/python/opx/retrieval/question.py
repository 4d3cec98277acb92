"""A question as it was read: what is searched for, within what, and what was made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opx.domain.record import replace
from opx.domain.times import day_text
from opx.ports import SearchFilter
from opx.retrieval.phrases import TermGroups, contains, folded, folded_phrase, required_groups, whole_terms

MAX_GROUPS = 100
"""Of required words, as engines bound the conditions of a search; `matches` sees to all of them."""

_SHOWN_CHARACTERS = 200
_SHOWN_VALUES = 10


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for (`text`, words alone) and what must hold for each result.

    A result has every one of `phrases` in its title, section or content, every word of `title` in its title, none of
    `excluded` (words and phrases) anywhere; it has one of `tags`, one of `services`, is in one of `categories` (paths,
    with all that is below those that were named) and of one of `tiers`; it was updated from the day `updated_from` on
    and before the day `updated_before` (counted from 1970-01-01). What is empty or None asks for nothing. `title` holds
    words and phrases.

    `identifiers` are the names and codes in `text`, as they were written. `notes` say what was not read as an operator
    although it looked like one, and which conditions exclude each other: with those `impossible` is true, and nothing
    can be found. `plain`: nothing was looked for but words; `pasted`: it looks like a log or code, in which quotes and
    dashes mean nothing.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    title: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    updated_from: int | None = None
    updated_before: int | None = None
    identifiers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    impossible: bool = False
    plain: bool = False
    pasted: bool = False

    @property
    def narrows(self) -> bool:
        """Whether it asks for more than words."""
        conditions = (*self.phrases, *self.excluded, *self.title, *self.tags, *self.services)
        bounds = (self.updated_from, self.updated_before)
        return bool(conditions or self.categories or self.tiers) or any(bound is not None for bound in bounds)

    @property
    def exact(self) -> bool:
        """Whether results have to be looked at: see `matches`."""
        return bool(self.phrases or self.excluded or self.title)

    def narrowed(self, where: SearchFilter) -> SearchFilter | None:
        """What passes both the filter and the question; None if nothing can. Nothing more passes than without it."""
        if self.impossible:
            return None
        tiers, categories = _both(where.tiers, self.tiers), _both(where.categories, self.categories)
        if tiers is None or categories is None:
            return None
        first = [day for day in (where.updated_from, self.updated_from) if day is not None]
        end = [day for day in (where.updated_before, self.updated_before) if day is not None]
        if first and end and max(first) >= min(end):
            return None
        return replace(
            where,
            tiers=tiers,
            categories=categories,
            tags=where.tags or self.tags,
            also_tags=self.tags if where.tags else (),
            services=where.services or self.services,
            also_services=self.services if where.services else (),
            updated_from=max(first, default=None),
            updated_before=min(end, default=None),
            title_terms=_groups(self.title),
            required_terms=_groups(self.phrases),
            excluded_terms=tuple(
                term for words in self.excluded if len(words.split()) == 1 for term in whole_terms(words)
            ),
        )

    def matches(self, title: str, section: Sequence[str], content: str) -> bool:
        """Whether a result has each phrase, those of `title` in its title, and nothing of what is excluded.

        Words are compared as `opx.retrieval.phrases` folds them, each part of the result for itself. Other words of
        `title` are left to the index, which knows their forms.
        """
        texts = [folded(text) for text in (title, *section, content)]
        return (
            all(_any_has(texts, phrase) for phrase in self.phrases)
            and all(_any_has(texts[:1], phrase) for phrase in self.title if " " in phrase)
            and not any(_any_has(texts, phrase) for phrase in self.excluded)
        )

    def relaxed(self) -> Question:
        """The same question with its phrases as words, for when nothing has them, and a note of it."""
        if not self.phrases:
            return self
        shown = ", ".join(f'"{_cut(phrase)}"' for phrase in self.phrases[:_SHOWN_VALUES])
        note = f"no passage that came near has exactly {shown}: the words were searched"
        return replace(self, phrases=(), notes=(*self.notes, note))

    @property
    def understood(self) -> dict[str, Any]:
        """How it was read, as small JSON: what is empty is left out, what is long is cut."""
        lists = {
            "phrases": self.phrases,
            "excluded": self.excluded,
            "title": self.title,
            "tags": self.tags,
            "services": self.services,
            "categories": self.categories,
            "tiers": self.tiers,
            "identifiers": self.identifiers,
        }
        days = {"updatedFrom": self.updated_from, "updatedBefore": self.updated_before}
        flags = {"plain": self.plain, "pasted": self.pasted, "impossible": self.impossible}
        return {
            "text": _cut(self.text),
            **{name: [_cut(value) for value in values[:_SHOWN_VALUES]] for name, values in lists.items() if values},
            **{name: day_text(day) for name, day in days.items() if day is not None},
            **{name: value for name, value in flags.items() if value},
        }


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...] | None:
    """What is in both, where an empty one stands for everything; None if nothing is."""
    if not (one and other):
        return one or other
    return tuple(value for value in one if value in other) or None


def _groups(texts: Sequence[str]) -> TermGroups:
    return tuple(dict.fromkeys(group for text in texts for group in required_groups(text)))[:MAX_GROUPS]


def _any_has(texts: Sequence[str], phrase: str) -> bool:
    wanted = folded_phrase(phrase)
    return any(contains(text, wanted) for text in texts)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
