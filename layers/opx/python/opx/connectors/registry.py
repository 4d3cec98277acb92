"""Registry of the kinds of sources: plugins, each imported when a source of its kind is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from msgspec import inspect

from opx import plugins
from opx.connectors.connector import Connector, read_options
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import Record, about, replace
from opx.domain.requests import FieldFacts, fields_of
from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError, PluginError

log = logging.getLogger(__name__)

TOPICS = "topics"


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of source with preset options. `kind` is the connector's, `about` describes it, `options` are those that
    differ from its defaults.

    `topics` maps each option that the source's option `topics` sets to the template of a topic (`/{topic}/`);
    `default_topics` are those of a source that names none. An option that a user sets is used unchanged.
    """

    kind: str
    about: str
    options: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    default_topics: tuple[str, ...] = ()

    def completed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all options of a source of this kind, for its connector."""
        own = dict(given)
        topics = own.pop(TOPICS, self.default_topics) if self.topics else ()
        named = [topics] if isinstance(topics, str) else topics
        if not isinstance(named, list | tuple) or not all(isinstance(topic, str) for topic in named):
            return {**self.options, **given}  # the connector's options report what is wrong with it
        clean = [topic.strip("/ ") for topic in named]
        by_topic = {
            option: tuple(form.format(topic=topic) for topic in clean) for option, form in self.topics.items() if clean
        }
        return {**self.options, **by_topic, **own}


def preset_of(kind: str) -> Preset | None:
    """Returns the preset of a kind; None for the kind of a connector. Raises as `connector_type`."""
    provided = _provided(kind)
    return provided if isinstance(provided, Preset) else None


def resolved(definition: SourceDefinition) -> SourceDefinition:
    """Replaces a preset's kind by its connector's kind with all options; other definitions are returned unchanged. Raises
    as `connector_type`."""
    preset = preset_of(definition.kind)
    if preset is None:
        return definition
    return replace(definition, kind=preset.kind, options=preset.completed(definition.options))


def connector_type(kind: str) -> type[Connector[Any]]:
    """Returns the connector class of a kind, or of a preset's. Raises `InvalidInputError` that lists the kinds, and
    `PluginError` for a plugin that can't be used."""
    provided = _provided(kind)
    return connector_type(provided.kind) if isinstance(provided, Preset) else provided


def check_kind(kind: str) -> None:
    """Raises `InvalidInputError` for a kind that doesn't exist."""
    kinds = plugins.names(plugins.CONNECTORS)
    if kind not in kinds:
        raise InvalidInputError(f"unknown kind of source {kind!r}; allowed: {', '.join(sorted(kinds))}")


def _provided(kind: str) -> type[Connector[Any]] | Preset:
    check_kind(kind)
    provided = plugins.load(plugins.CONNECTORS, kind, object)
    if isinstance(provided, Preset) or (isinstance(provided, type) and issubclass(provided, Connector)):
        return provided
    raise PluginError(f"the kind of source {kind!r} is neither a Connector nor a Preset: {provided!r}")


def checked_options(definition: SourceDefinition) -> Any:
    """Returns the validated options of a source. Raises `InvalidInputError`."""
    kind, options = connector_type(definition.kind), resolved(definition).options
    return read_options(kind.options_type, options, of=f"source {definition.source_id} ({definition.kind})")


class OptionType(StrEnum):
    """TEXTS: a list of texts; one text is a list of one."""

    TEXT = "text"
    TEXTS = "texts"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"


class SourceOption(Record, frozen=True, omit_defaults=True):
    """An option of a kind of source."""

    name: str
    type: OptionType
    about: str
    required: bool = False
    is_secret: Annotated[bool, about("True if its value is the name of a secret, which is set elsewhere.")] = False
    default: Annotated[Any, about("Its value if it isn't given: a text, a list of texts, a number or a flag.")] = None


class SourceKind(Record, frozen=True, omit_defaults=True):
    """A kind of source."""

    kind: str
    about: str
    options: tuple[SourceOption, ...]
    category: Annotated[str, about("The category of its documents, unless one is given.")] = ""
    is_local: Annotated[bool, about("True if it reads files of the machine that pulls.")] = False


def source_kinds(knowledge: KnowledgeModel) -> tuple[SourceKind, ...]:
    """Returns every kind with its options, by name, without those of plugins that can't be used: these are logged."""
    kinds = []
    for kind in sorted(plugins.names(plugins.CONNECTORS)):
        try:
            kinds.append(_described(kind, knowledge))
        except PluginError as exc:
            log.warning("%s", exc)
    return tuple(kinds)


def _described(kind: str, knowledge: KnowledgeModel) -> SourceKind:
    preset, connector = preset_of(kind), connector_type(kind)
    options = [_option(each, preset) for each in fields_of(connector.options_type)]
    if preset and preset.topics:
        about = f"Topics, which set {' and '.join(preset.topics)}."
        options.insert(0, SourceOption(TOPICS, OptionType.TEXTS, about, default=preset.default_topics))
    category = knowledge.category_of_connector(kind)
    return SourceKind(
        kind,
        (preset or connector).about,
        tuple(options),
        category=category.path if category else "",
        is_local=connector.local,
    )


def _option(field: FieldFacts, preset: Preset | None) -> SourceOption:
    set_before = preset.options.get(field.name) if preset else None
    return SourceOption(
        field.name,
        option_type(field),
        field.about,
        required=field.required and set_before is None,
        is_secret=field.name.endswith("_secret"),
        default=field.default if set_before is None else set_before,
    )


def option_type(field: FieldFacts) -> OptionType:
    if field.is_list:
        return OptionType.TEXTS
    types = {
        inspect.BoolType: OptionType.FLAG,
        inspect.IntType: OptionType.INTEGER,
        inspect.FloatType: OptionType.NUMBER,
        inspect.StrType: OptionType.TEXT,
    }
    return types[type(field.kind)]
