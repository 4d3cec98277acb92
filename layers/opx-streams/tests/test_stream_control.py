"""`opx stream`, the same through the manager, and the subscriptions that it creates."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opx.domain.sources import StreamDefinition
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_streams import capability
from tests.support.cli_support import Opx
from tests.support.fakes import WordsEmbedder
from tests.support.stream_support import KINESIS, MSK, REDIS, SQS

ADD = ("stream", "add", REDIS, "--topic", "incidents", "--category", "operations/incidents", "--name", "live")


class TestCommand:
    @pytest.fixture
    def opx(self, tmp_path: Path) -> Opx:
        return Opx(tmp_path)

    def test_an_added_stream_is_listed_until_it_is_removed(self, opx: Opx) -> None:
        assert "no streams yet" in opx("stream", "list").output
        result = opx(*ADD, "--filter", '{"severity": ["critical"]}', "--tag", "a", "--identity", "$.id")
        assert (result.exit_code, result.output) == (0, "added live: `opx run` reads it\n")
        (found,) = json.loads(opx("stream", "list", "--json").output)
        assert (found["name"], found["filter"], found["tags"]) == ("live", {"severity": ["critical"]}, ["a"])
        assert "redis" in opx("stream", "list").output
        assert opx("stream", "remove", "live").output == "removed live; its documents stay\n"
        assert "no streams yet" in opx("stream", "list").output

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ((*ADD, "--filter", "{"), "--filter is not JSON"),
            ((*ADD, "--filter", '{"a": "b"}'), "must be a list"),
            (("stream", "add", SQS, "--category", "operations/incidents"), "read by a function of a deployed system"),
            (("stream", "add", REDIS, "--category", "operations/incidents"), "needs a topic"),
            (("stream", "add", REDIS, "--topic", "t", "--category", "no/such"), "no/such"),
            (("stream", "remove", "never"), "no stream 'never'"),
        ],
    )
    def test_mistakes_are_reported(self, opx: Opx, arguments: tuple[str, ...], problem: str) -> None:
        result = opx(*arguments)
        assert result.exit_code != 0
        assert problem in result.output


@dataclass
class Subscriptions:
    """Records subscriptions; refuses them on demand."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None

    def put(self, definition: StreamDefinition) -> str:
        return self._note("put", definition)

    def delete(self, definition: StreamDefinition) -> None:
        self._note("delete", definition)

    def _note(self, what: str, definition: StreamDefinition) -> str:
        if self.error:
            raise self.error
        self.calls.append((what, definition.source))
        return "id"


class TestDeployed:
    @pytest.fixture
    def services(self, tmp_path: Path) -> System:
        services = bootstrap(Settings(home=str(tmp_path)), embedder=WordsEmbedder())
        services.ports.functions.stream_subscriptions = Subscriptions()  # type: ignore[misc]
        return services

    def calls(self, services: System) -> list[tuple[str, str]]:
        assert isinstance(services.ports.functions.stream_subscriptions, Subscriptions)
        return services.ports.functions.stream_subscriptions.calls

    def subscribe(self, services: System, stream: str = SQS, **more: Any) -> str:
        return services.manager.subscribe_stream(stream, "internal", "operations/incidents", **more)

    def test_the_same_stream_has_one_subscription(self, services: System) -> None:
        ids = {self.subscribe(services, filter=pattern) for pattern in (None, {"a": [1]})}
        assert [stream.name for stream in services.part(capability.StreamIngestion).repository.all()] == list(ids)
        assert services.part(capability.StreamIngestion).repository.all()[0].pattern == {"a": [1]}
        assert self.calls(services) == [("put", SQS), ("put", SQS)]

    def test_a_topic_stands_behind_the_address(self, services: System) -> None:
        self.subscribe(services, f"{MSK}#orders")
        assert [(one.source, one.topic) for one in services.part(capability.StreamIngestion).repository.all()] == [
            (MSK, "orders")
        ]

    def test_a_category_of_another_tier_is_refused(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match="tier"):
            services.manager.subscribe_stream(SQS, "internet", "operations/incidents")

    def test_functions_read_no_redis(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match="Redis is not read by functions"):
            self.subscribe(services, f"{REDIS}#t")
        assert services.part(capability.StreamIngestion).repository.all() == []

    def test_another_stream_under_the_name_takes_the_place_of_the_first(self, services: System) -> None:
        control = services.part(capability.StreamIngestion).control
        for source in (SQS, KINESIS):
            control.subscribe(source, "operations/incidents", None, name="s")
        assert self.calls(services) == [("put", SQS), ("delete", SQS), ("put", KINESIS)]

    def test_an_ended_subscription_is_read_no_more(self, services: System) -> None:
        services.part(capability.StreamIngestion).control.end(self.subscribe(services))
        assert (self.calls(services)[-1], services.part(capability.StreamIngestion).repository.all()) == (
            ("delete", SQS),
            [],
        )

    def test_one_that_could_not_be_ended_can_still_be(self, services: System) -> None:
        name = self.subscribe(services)
        assert isinstance(services.ports.functions.stream_subscriptions, Subscriptions)
        services.ports.functions.stream_subscriptions.error = StoreUnavailableError("throttled")
        with pytest.raises(StoreUnavailableError):
            services.part(capability.StreamIngestion).control.end(name)
        services.ports.functions.stream_subscriptions.error = None
        services.part(capability.StreamIngestion).control.end(name)
        assert services.part(capability.StreamIngestion).repository.all() == []
