"""What can be chosen at deployment, read from CDK context in this one place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from opx.adapters.aws.bedrock_embedder import DEFAULT_MODEL
from opx.adapters.aws.bedrock_models import embedding_model
from opx.adapters.aws.opensearch import GENERATIONS
from opx.errors import InvalidInputError

_ENVIRONMENT = re.compile(r"[a-z][a-z0-9]{0,9}\Z")
"""Ten characters leave room for the longest name that the environment is put before: 32 for an access policy."""

_FOREIGN = re.compile(r"[:/@]")
"""Context keys of CDK itself and of its look-ups all have one of these characters."""


class ContextError(InvalidInputError):
    """A context key or value that isn't known; the message lists what is allowed."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One environment. Each field is the context key of its name: `cdk synth -c environment=prod`.

    `account` and `region` empty: the template fits every account and region. `ephemeral`: stateful resources go with
    their stack. `bundle`: layers get their dependencies, which takes network. `corpus_bucket` and `deploy_role` (an
    ARN) replace the names that follow from the environment.
    """

    environment: str = "dev"
    account: str = ""
    region: str = ""
    search_generation: str = "nextgen"
    embedding_model: str = DEFAULT_MODEL
    corpus_bucket: str = ""
    deploy_role: str = ""
    ephemeral: bool = False
    bundle: bool = False

    def __post_init__(self) -> None:
        if not _ENVIRONMENT.match(self.environment):
            raise _refusal("environment", self.environment, "1 to 10 lower-case letters and digits, a letter first")
        if self.search_generation not in GENERATIONS:
            raise _refusal("search_generation", self.search_generation, ", ".join(GENERATIONS))
        try:
            embedding_model(self.embedding_model)
        except InvalidInputError as exc:
            raise ContextError(f"context embedding_model: {exc}") from exc

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Deployment:
        """Raises `ContextError` for a key or a value that isn't known. Keys of CDK itself are left alone."""
        allowed = [field.name for field in fields(cls)]
        own = {key: value for key, value in context.items() if not _FOREIGN.search(key)}
        for key in own:
            if key not in allowed:
                raise ContextError(f"unknown context key {key!r}; allowed: {', '.join(allowed)}")
        flags = {field.name for field in fields(cls) if field.type == "bool"}
        values: dict[str, Any] = {key: _flag(key, value) if key in flags else str(value) for key, value in own.items()}
        return cls(**values)


def _flag(key: str, value: object) -> bool:
    """The command line gives texts, cdk.json truth values."""
    known = {"true": True, "false": False}
    text = str(value).lower()
    if text not in known:
        raise _refusal(key, value, "true, false")
    return known[text]


def _refusal(key: str, value: object, allowed: str) -> ContextError:
    return ContextError(f"context {key}={value} is not known; allowed: {allowed}")
