"""What becomes of knowledge in time, as it is put together."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from opx.composition.outcomes import OutcomeServices
from opx.runtime.metrics import Report, unreported
from opx.tables import LIFECYCLE

if TYPE_CHECKING:
    from opx.lifecycle.holds import Holds
    from opx.lifecycle.pruning import KnowledgePruningService
    from opx.lifecycle.report import PruneReports
    from opx.lifecycle.reviews import Reviews


class LifecycleServices(OutcomeServices):
    """Retention, holds and reviews."""

    @cached_property
    def holds(self) -> Holds:
        """What is not to be removed."""
        from opx.lifecycle.holds import Holds

        return Holds(self.table(LIFECYCLE), self.clock)

    @cached_property
    def prune_reports(self) -> PruneReports:
        """What past runs of pruning did."""
        from opx.lifecycle.report import PruneReports

        return PruneReports(self.table(LIFECYCLE), self.clock)

    @property
    def pruning(self) -> KnowledgePruningService:
        """Removes what its retention is over for, of all scopes. Raises `KnowledgeConfigError`."""
        return self.pruning_reported()

    def pruning_reported(self, report: Report = unreported) -> KnowledgePruningService:
        """The same, with what it measures. Raises `KnowledgeConfigError`."""
        from opx.lifecycle.guard import read_guard_rules
        from opx.lifecycle.patterns import PatternKeeper
        from opx.lifecycle.pruning import KnowledgePruningService
        from opx.lifecycle.redating import Redating
        from opx.lifecycle.removal import Removal
        from opx.lifecycle.retention import DueVersions, RetentionState

        state = RetentionState(self.table(LIFECYCLE), self.knowledge)
        patterns = PatternKeeper(lambda: self.patterns, self.knowledge)
        removal = Removal(
            store=self.store,
            catalog=self.catalog,
            calendar=self.calendar,
            pipeline=self.pipeline,
            clock=self.clock,
            unit_of_work=self.unit_of_work,
            threads=self.read_threads,
            forgotten=patterns.forget,
        )
        return KnowledgePruningService(
            catalog=self.catalog,
            calendar=self.calendar,
            state=state,
            holds=self.holds,
            removal=removal,
            rules=read_guard_rules(self.knowledge_path),
            reports=self.prune_reports,
            clock=self.clock,
            due=partial(DueVersions, self.catalog, self.calendar, self.knowledge),
            exclusive=self.exclusive_work,
            redating=Redating(self.catalog, self.calendar, state, self.unit_of_work),
            patterns=patterns,
            purge=self.purge_expired,
            report=report,
        )

    @cached_property
    def reviews(self) -> Reviews:
        """What is to be looked at again. Raises `KnowledgeConfigError`."""
        from opx.knowledge_file import read_section
        from opx.lifecycle.reviews import Reviews
        from opx.records.gaps.owners import read_owners

        read_owners(self.knowledge, self.knowledge_path)  # refuses what is wrong with them
        section = read_section("owners", self.knowledge_path)
        named = {name: value.text() for name, value in section.entries().items()} if section else {}
        services = {name.casefold(): owner for name, owner in named.items()}
        return Reviews(self.catalog, self.calendar, {**named, **services}, self.clock)
