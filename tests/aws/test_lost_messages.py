"""Changes whose messages SQS deleted are found by the ledger of announcements, and ingested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from lambdas.record_announcements.handler import make_handler as make_record_handler
from lambdas.report_coverage.handler import make_handler as make_coverage_handler
from opx.domain.scopes import Scope
from opx.errors import StoreUnavailableError
from opx.ingestion.corpus.announcements import ANNOUNCE_AGAIN, DELAY_SECONDS, Backlog
from opx.ingestion.events import ObjectEvent, parse_event
from opx.ports.queues import KEPT_DAYS
from opx.ports.tables import ANNOUNCEMENTS, FAILURES, KEYS
from opx.runtime.metrics import Metric
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.support.api_requests import a_token, call
from tests.support.fakes import FakeContext, function_logs
from tests.support.telemetry_support import metric_lines

DISK = "documents/runbooks/disk.md"
TITLE = "Disk full on Linux hosts"
TEXT = f"# {TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume."
VAULT = "clients/acme/documents/runbooks/vault.md"
HOUR, DAY = 3600.0, 86400.0


class LongContext(FakeContext):
    """A call that has fifteen minutes."""

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


class HurriedContext(FakeContext):
    """A call whose time is used up."""

    def get_remaining_time_in_millis(self) -> int:
        return 1_000


@dataclass
class Announced:
    """A cloud whose bucket sends each event to the queue of changes, and `DELAY_SECONDS` later to the ledger's function.

    Like SQS, and unlike moto, `pass_days` deletes messages that are older than `KEPT_DAYS`, without a dead letter.
    """

    cloud: Cloud
    time: FakeTime

    def __post_init__(self) -> None:
        self.record = make_record_handler(lambda: self.cloud.services)
        self.report = make_coverage_handler(lambda: self.cloud.services)
        self._oldest = self.time.now

    def put(self, key: str = DISK, text: str = TEXT) -> str:
        return self.cloud.put(key, text)

    def announce(self, *events: str) -> dict[str, Any]:
        """Delivers events to the ledger's function, which were sent `DELAY_SECONDS` ago."""
        sent = {"SentTimestamp": str(int((self.time.now - DELAY_SECONDS) * 1000))}
        records = [{"messageId": str(number), "body": body, "attributes": sent} for number, body in enumerate(events)]
        answer: dict[str, Any] = self.record({"Records": records}, FakeContext())
        return answer

    def pass_days(self, days: float) -> None:
        """All messages are as old as the days that have passed since the last call of `deliver`."""
        self.time.now += days * DAY
        if self.time.now - self._oldest >= KEPT_DAYS * DAY:
            self.lose_messages()

    def lose_messages(self) -> None:
        while records := self.cloud.receive():
            for record in records:
                self.cloud.sqs.delete_message(QueueUrl=self.cloud.queue_url, ReceiptHandle=record["receiptHandle"])

    def deliver(self) -> list[str]:
        self._oldest = self.time.now
        return self.cloud.deliver()

    def check(self) -> dict[str, Any]:
        """The scheduler's call."""
        answer: dict[str, Any] = self.record(dict(ANNOUNCE_AGAIN), LongContext())
        return answer

    def rows(self) -> set[str]:
        return {item["objectKey"]["S"] for item in self.cloud.items(ANNOUNCEMENTS.name) if "objectKey" in item}

    def waiting(self) -> list[ObjectEvent]:
        return [parse_event(record["body"]) for record in self.cloud.receive()]

    @property
    def backlog(self) -> Backlog:
        return self.cloud.services.corpus.backlog()


@pytest.fixture
def announced(aws: boto3.Session) -> Iterator[Announced]:
    time = FakeTime()
    with function_logs(), a_cloud(aws, clock=time.clock) as deployed:
        yield Announced(deployed, time)


class TestLostMessages:
    def test_change_whose_message_expired_is_ingested_the_next_day(self, announced: Announced) -> None:
        announced.announce(announced.put())
        announced.pass_days(KEPT_DAYS)  # nothing took the message, and SQS deleted it
        assert announced.cloud.receive() == []
        announced.pass_days(1)
        assert announced.check() == {"settled": 0, "sent": 1, "queued": 0, "finished": True}
        assert announced.deliver() == []
        assert f"Source: {TITLE}" in announced.cloud.ask(TITLE)
        assert announced.rows() == set()

    def test_deletion_whose_message_expired_is_applied(self, announced: Announced) -> None:
        announced.put()
        announced.deliver()
        announced.announce(announced.cloud.delete(DISK))
        announced.pass_days(KEPT_DAYS + 1)
        announced.check()
        announced.deliver()
        assert TITLE not in announced.cloud.ask(TITLE)
        assert announced.rows() == set()

    def test_change_is_announced_again_a_day_later_if_the_queue_is_empty(self, announced: Announced) -> None:
        announced.announce(announced.put())
        announced.lose_messages()
        announced.pass_days(0.5)
        assert announced.check()["sent"] == 0
        announced.pass_days(0.6)
        assert announced.check()["sent"] == 1

    def test_change_is_announced_again_a_day_later_while_a_few_others_are_in_work(self, announced: Announced) -> None:
        """A queue with regular changes is hardly ever empty."""
        announced.announce(announced.put())
        announced.lose_messages()
        announced.pass_days(1.1)
        announced.put(VAULT)
        assert announced.check()["sent"] == 1

    def test_message_that_may_still_be_queued_is_not_sent_again(
        self, announced: Announced, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("opx.ingestion.corpus.announcements.FEW_WAITING", 2)
        announced.announce(announced.put(), announced.put("documents/runbooks/cpu.md", "# CPU\n\nLook at top."))
        announced.pass_days(13)
        assert announced.check() == {"settled": 0, "sent": 0, "queued": 2, "finished": True}
        assert len(announced.waiting()) == 2

    def test_change_that_was_sent_again_is_not_sent_at_the_next_check(self, announced: Announced) -> None:
        announced.announce(announced.put())
        announced.pass_days(KEPT_DAYS + 1)
        assert [announced.check()["sent"], announced.check()["sent"]] == [1, 0]

    def test_event_sent_again_has_the_sequencer_of_the_change(self, announced: Announced) -> None:
        event = announced.put()
        announced.announce(event)
        announced.pass_days(KEPT_DAYS + 1)
        announced.check()
        assert announced.waiting() == [parse_event(event)]

    def test_lost_changes_are_counted(self, announced: Announced, capsys: pytest.CaptureFixture[str]) -> None:
        announced.announce(announced.put())
        announced.pass_days(KEPT_DAYS + 1)
        capsys.readouterr()
        announced.check()
        (line,) = metric_lines(capsys.readouterr().out)
        assert line[Metric.ANNOUNCED_AGAIN] == [1.0]

    def test_run_that_is_out_of_time_is_continued_by_the_next_one(
        self, announced: Announced, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("opx.ingestion.corpus.announcements.AT_ONCE", 2)
        names = [f"documents/runbooks/{number}.md" for number in range(5)]
        announced.announce(*(announced.put(name, f"# {name}\n\nText.") for name in names))
        announced.pass_days(KEPT_DAYS + 1)
        send = announced.cloud.services.queue.send

        def slow(body: str) -> None:
            announced.time.sleep(500)  # of 840 that a run has
            send(body)

        with monkeypatch.context() as slowly:
            slowly.setattr(announced.cloud.services.queue, "send", slow)
            assert announced.check() == {"settled": 0, "sent": 2, "queued": 0, "finished": False}
        assert announced.check() == {"settled": 0, "sent": 3, "queued": 2, "finished": True}
        assert sorted(event.key for event in announced.waiting()) == names

    def test_changes_that_are_looked_up_in_vain_keep_no_later_ones_waiting(
        self, announced: Announced, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a large backlog, a run has no time for more than a part of it."""
        monkeypatch.setattr("opx.ingestion.corpus.announcements.AT_ONCE", 1)
        for number in range(3):
            announced.announce(announced.put(f"documents/runbooks/{number}.md"))
            announced.time.now += HOUR
        announced.pass_days(KEPT_DAYS + 1)
        slowly(announced, monkeypatch)
        runs = [announced.check() for _ in range(4)]
        assert [run["sent"] for run in runs] == [1, 1, 1, 0]
        assert [run["finished"] for run in runs] == [False, False, True, False]
        assert announced.backlog.changes == 3

    def test_outage_during_a_run_loses_nothing(self, announced: Announced, monkeypatch: pytest.MonkeyPatch) -> None:
        announced.announce(announced.put())
        announced.pass_days(KEPT_DAYS + 1)
        with monkeypatch.context() as outage:
            outage.setattr(announced.cloud.services.queue, "send", away)
            with pytest.raises(Exception, match="StoreUnavailableError"):
                announced.check()
        assert announced.check()["sent"] == 1


class TestRecording:
    def test_change_that_was_ingested_meanwhile_is_not_recorded(self, announced: Announced) -> None:
        event = announced.put()
        announced.deliver()
        assert announced.announce(event) == {"recorded": 0}

    def test_change_that_failed_for_good_is_in_the_list_of_failures_instead(self, announced: Announced) -> None:
        event = announced.put("documents/runbooks/empty.md", "")
        announced.deliver()
        assert len(announced.cloud.items(FAILURES.name)) == 1
        assert announced.announce(event) == {"recorded": 0}

    def test_failure_with_a_sidecar_covers_both_changes(self, announced: Announced) -> None:
        key = "documents/runbooks/empty.md"
        events = [announced.put(key, ""), announced.put(key + ".metadata.json", '{"title": "Empty"}')]
        announced.deliver()
        assert announced.announce(*events) == {"recorded": 0}

    def test_object_that_was_gone_before_its_ingestion_is_not_recorded(self, announced: Announced) -> None:
        events = [announced.put(), announced.cloud.delete(DISK)]
        announced.deliver()
        assert announced.announce(*events) == {"recorded": 0}

    def test_deletion_of_an_ingested_document_is_recorded(self, announced: Announced) -> None:
        announced.put()
        announced.deliver()
        assert announced.announce(announced.cloud.delete(DISK)) == {"recorded": 1}

    def test_object_outside_the_documents_of_a_client_is_not_recorded(self, announced: Announced) -> None:
        """The rule's wildcard matches it, and ingestion skips it."""
        event = announced.put("clients/acme/drafts/documents/disk.md")
        assert announced.announce(event) == {"recorded": 0}

    def test_later_change_of_a_failed_document_is_recorded(self, announced: Announced) -> None:
        announced.put("documents/runbooks/empty.md", "")
        announced.deliver()
        announced.time.now += HOUR
        assert announced.announce(announced.put("documents/runbooks/empty.md", TEXT)) == {"recorded": 1}

    def test_older_event_of_an_ingested_document_is_not_recorded(self, announced: Announced) -> None:
        older, _ = announced.put(), announced.put()
        announced.deliver()
        assert announced.announce(older) == {"recorded": 0}

    def test_sidecar_is_compared_with_sidecars_only(self, announced: Announced) -> None:
        sidecar = announced.cloud.event(DISK + ".metadata.json")
        announced.put()
        announced.deliver()
        assert announced.announce(sidecar) == {"recorded": 1}

    @pytest.mark.parametrize("body", ["no json", "{}", '{"source": "aws.ec2"}'])
    def test_body_that_is_no_event_is_dropped(self, announced: Announced, body: str) -> None:
        assert announced.announce(body, announced.put()) == {"recorded": 1}

    def test_more_announcements_than_a_read_takes_are_recorded(
        self, announced: Announced, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("opx.ingestion.corpus.announcements.AT_ONCE", 2)
        events = [announced.put(f"documents/runbooks/{number}.md") for number in range(5)]
        assert announced.announce(*events) == {"recorded": 5}
        assert len(announced.rows()) == 5

    def test_announcement_that_comes_twice_is_one_row(self, announced: Announced) -> None:
        event = announced.put()
        announced.announce(event, event)
        announced.announce(event)
        assert announced.backlog.changes == 1

    def test_removed_client_gets_no_row(self, announced: Announced) -> None:
        event = announced.put(VAULT)
        announced.deliver()
        announced.cloud.services.tenants.offboarding(sleep=lambda _: None).remove("acme", by="ann")
        assert announced.announce(event, announced.cloud.event(VAULT)) == {"recorded": 0}

    def test_removal_of_a_client_takes_its_rows(self, announced: Announced) -> None:
        announced.announce(announced.put(VAULT), announced.put(Scope("acme-b").prefix + DISK), announced.put())
        report = announced.cloud.services.tenants.offboarding(sleep=lambda _: None).remove("acme", by="ann")
        assert report.stores["announcements"].before == 1
        assert announced.rows() == {Scope("acme-b").prefix + DISK, DISK}


class TestSettling:
    @pytest.mark.parametrize("text", [TEXT, ""], ids=["ingested", "failed"])
    def test_worker_that_is_late_removes_the_row(self, announced: Announced, text: str) -> None:
        announced.announce(announced.put(text=text))
        assert announced.rows() == {DISK}
        announced.deliver()
        assert announced.rows() == set()

    def test_object_that_is_gone_leaves_no_row(self, announced: Announced) -> None:
        announced.announce(announced.put())
        announced.cloud.s3.delete_object(Bucket=BUCKET, Key=DISK)
        announced.deliver()
        assert announced.rows() == set()

    def test_change_to_be_retried_stays(self, announced: Announced, monkeypatch: pytest.MonkeyPatch) -> None:
        announced.announce(announced.put())
        with monkeypatch.context() as outage:
            outage.setattr(announced.cloud.services.store, "head", away)
            assert len(announced.deliver()) == 1
        assert announced.rows() == {DISK}

    def test_change_that_waits_for_the_embedding_model_keeps_its_age(self, announced: Announced) -> None:
        """Its message is sent anew each time, so that the age of messages doesn't show how long it waits."""
        announced.announce(announced.put())
        first = announced.backlog
        announced.pass_days(3)
        records = announced.cloud.receive()
        assert announced.cloud.ingest({"Records": records}, HurriedContext()) == {"batchItemFailures": []}
        announced.cloud.sqs.delete_message(
            QueueUrl=announced.cloud.queue_url, ReceiptHandle=records[0]["receiptHandle"]
        )
        assert announced.cloud.services.queue.waiting() == 1
        assert announced.backlog == first

    def test_ledger_that_is_away_does_not_stop_ingestion(
        self, announced: Announced, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announced.announce(announced.put())
        with monkeypatch.context() as outage:
            outage.setattr(announced.cloud.services.corpus.announcements, "table", Away())
            assert announced.deliver() == []
        assert f"Source: {TITLE}" in announced.cloud.ask(TITLE)
        announced.time.now += DAY
        assert announced.check() == {"settled": 1, "sent": 0, "queued": 0, "finished": True}
        assert announced.rows() == set()

    def test_row_that_a_worker_removes_during_a_check_stays_away(
        self, announced: Announced, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announced.announce(announced.put())
        announced.pass_days(KEPT_DAYS + 1)
        send = announced.cloud.services.queue.send

        def worked_at_once(body: str) -> None:
            send(body)
            announced.deliver()

        monkeypatch.setattr(announced.cloud.services.queue, "send", worked_at_once)
        assert announced.check()["sent"] == 1
        assert announced.rows() == set()


class TestBacklog:
    def test_backlog_has_number_and_time_of_the_oldest(self, announced: Announced) -> None:
        announced.time.now = 1_764_000_000.0
        announced.announce(announced.put())
        announced.time.now += HOUR
        announced.announce(announced.put(VAULT))
        assert announced.backlog == Backlog(2, oldest="2025-11-24T15:45:00Z")
        assert announced.cloud.services.corpus.announcements.backlog(1) == Backlog(1, True, "2025-11-24T15:45:00Z")

    def test_status_shows_it_to_callers_of_the_whole_system_alone(self, announced: Announced) -> None:
        announced.announce(announced.put())
        oldest = announced.backlog.oldest
        status, body = call(announced.cloud.retrieve, "get_status")
        assert (status, body["backlog"]) == (200, {"changes": 1, "more": False, "oldest": oldest})
        _, of_client = call(announced.cloud.retrieve, "get_status", caller=a_token("acme", "shop", "openid"))
        assert of_client["backlog"] is None

    def test_age_stays_that_of_the_first_announcement(self, announced: Announced) -> None:
        announced.announce(announced.put())
        first = announced.backlog
        announced.pass_days(KEPT_DAYS + 1)
        announced.check()
        assert announced.backlog == first

    @pytest.mark.parametrize(("late", "expected"), [(True, (1.0, 3 * DAY)), (False, (0.0, 0.0))])
    def test_number_and_age_are_reported_every_hour(
        self, announced: Announced, capsys: pytest.CaptureFixture[str], late: bool, expected: tuple[float, float]
    ) -> None:
        if late:
            announced.announce(announced.put())
            announced.time.now += 3 * DAY - DELAY_SECONDS
        capsys.readouterr()
        announced.report({}, FakeContext())
        lines = metric_lines(capsys.readouterr().out)
        (line,) = (line for line in lines if Metric.OLDEST_ANNOUNCEMENT in line)
        assert (line[Metric.NOT_INGESTED], line[Metric.OLDEST_ANNOUNCEMENT]) == ([expected[0]], [expected[1]])


def slowly(announced: Announced, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each look-up in the catalog take as long as a run has."""
    keys = announced.cloud.services.tables.table(KEYS)
    get_many = keys.get_many

    def slow(wanted: Any) -> Any:
        announced.time.sleep(900)
        return get_many(wanted)

    monkeypatch.setattr(keys, "get_many", slow)
    monkeypatch.setattr(announced.cloud.services.corpus.announcements, "keys", keys)


def away(*args: Any, **options: Any) -> Any:
    raise StoreUnavailableError("can't be reached")


class Away:
    """A table that can't be reached."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return away
