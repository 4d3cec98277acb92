"""Estimates the costs of a month so far by service and by client, from the use that was counted each day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from opx.domain.record import Record, about
from opx.lifecycle.costs import COHERE, TITAN, Scenario, monthly, search_hours
from opx.lifecycle.usage import DayUsage

_DAY_HOURS = 24
_TOGETHER = 4
"""Documents that are ingested at a time."""

LEFT_OUT = (
    "free tiers, taxes, support and discounts",
    "other choices of the deployment (network, standby, backups, firewall), other models, and sources' own charges",
    "the pattern of questions within a day: they are taken to be spread over it, which keeps the index awake longest",
    "the days that were not counted, today among them",
)
"""Named in each estimate."""


class ServiceCost(Record, frozen=True):
    service: str
    dollars: float


class ClientCost(Record, frozen=True, kw_only=True):
    """A client's use of a month, and its share of the costs that grow with use."""

    client_id: Annotated[str, about("Empty for the global scope.")]
    dollars: float
    questions: Annotated[int | None, about("Null if no audit log is kept.")]
    documents: Annotated[int, about("Stored on an average day; likewise chunks.")]
    chunks: int
    new_documents: int
    new_tokens: Annotated[int, about("Tokens of new chunks, which were embedded.")]


class MonthCosts(Record, frozen=True, kw_only=True):
    """US dollars of a month. The costs of clients and those that no use causes are all of them."""

    month: str
    days: Annotated[int, about("Number of days that were counted.")]
    dollars: float
    services: tuple[ServiceCost, ...]
    clients: Annotated[tuple[ClientCost, ...], about("The largest costs first.")]
    other_clients: Annotated[float, about("Dollars of clients that are left out of the list.")]
    unused: Annotated[float, about("Dollars that are due without any use: alarms, queues, warm functions.")]


class Rates(Record, frozen=True):
    """Choices of a deployment on which its prices depend. `is_billed` is False for a system on this machine."""

    is_billed: bool
    embedding: str = TITAN
    stays_awake: bool = False

    @classmethod
    def of(cls, backend: str, embedding_model: str, search_generation: str) -> Rates:
        embedding = COHERE if embedding_model.startswith("cohere.") else TITAN
        return cls(backend == "aws", embedding, search_generation == "classic")


@dataclass
class _Used:
    """Sums of days."""

    questions: int | None = None
    documents: int = 0
    chunks: int = 0
    new_documents: int = 0
    new_tokens: int = 0

    def add(self, day: DayUsage) -> None:
        if day.questions is not None:
            self.questions = (self.questions or 0) + day.questions
        self.documents += day.documents
        self.chunks += day.chunks
        self.new_documents += day.ingested_documents
        self.new_tokens += day.ingested_tokens


@dataclass
class UsedMonth:
    """The use of a month by client, and the days that were counted."""

    month: str
    clients: dict[str, _Used] = field(default_factory=lambda: defaultdict(_Used))
    whole: _Used = field(default_factory=_Used)
    days: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, month: str, days: Iterable[DayUsage]) -> UsedMonth:
        found = cls(month)
        for day in days:
            found.days.add(day.day)
            for used in (found.clients[day.client_id], found.whole):
                used.add(day)
        return found

    def costs(self, rates: Rates, most_clients: int) -> MonthCosts:
        """Cost with at most this number of clients."""
        nothing, whole = (monthly(self._load(used, rates)) for used in (_Used(), self.whole))
        if not rates.is_billed:
            nothing = whole = dict.fromkeys(whole, 0.0)
        grown = {service: whole[service] - nothing[service] for service in whole}
        by_client = self._divided(grown, rates)
        shown = sorted(self.clients, key=lambda one: (-by_client[one], one))
        return MonthCosts(
            month=self.month,
            days=len(self.days),
            dollars=_cents(sum(whole.values())),
            services=tuple(ServiceCost(service, _cents(dollars)) for service, dollars in whole.items()),
            clients=tuple(self._client(one, by_client[one]) for one in shown[:most_clients]),
            other_clients=_cents(sum(by_client[one] for one in shown[most_clients:])),
            unused=_cents(sum(nothing.values())),
        )

    def _divided(self, grown: Mapping[str, float], rates: Rates) -> dict[str, float]:
        """Divides each service's costs of use by what each client's use alone would cost: hours of the index are shared."""
        nothing = monthly(self._load(_Used(), rates))
        alone = {client: monthly(self._load(used, rates)) for client, used in self.clients.items()}
        found = dict.fromkeys(self.clients, 0.0)
        for service, dollars in grown.items():
            parts = {client: costs[service] - nothing[service] for client, costs in alone.items()}
            if total := sum(parts.values()):
                for client, part in parts.items():
                    found[client] += dollars * part / total
        return found

    def _load(self, used: _Used, rates: Rates) -> Scenario:
        days = len(self.days)
        hours, questions = float(_DAY_HOURS * days), used.questions or 0
        whole_days = {"search_hours": hours, "index_hours": hours, "search_ocus": 1.0, "index_ocus": 1.0}
        awake = {
            "search_hours": search_hours(questions, hours),
            "index_hours": search_hours(used.new_documents, hours) / _TOGETHER,
        }
        return Scenario(
            self.month,
            documents=used.documents / days if days else 0.0,
            chunks=used.chunks / days if days else 0.0,
            new_documents=used.new_documents,
            new_tokens=used.new_tokens,
            questions=questions,
            hours=hours,
            embedding=rates.embedding,
            **(whole_days if rates.stays_awake else awake),
        )

    def _client(self, client_id: str, dollars: float) -> ClientCost:
        used, days = self.clients[client_id], len(self.days)
        return ClientCost(
            client_id=client_id,
            dollars=_cents(dollars),
            questions=used.questions,
            documents=round(used.documents / days),
            chunks=round(used.chunks / days),
            new_documents=used.new_documents,
            new_tokens=used.new_tokens,
        )


def _cents(dollars: float) -> float:
    return round(dollars, 4)
