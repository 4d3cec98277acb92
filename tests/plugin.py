"""Hooks, settings of Hypothesis, and fixtures of all tests, here and in `layers/opx-*/tests`: pytest loads them as a plugin
(`addopts` in `pyproject.toml`), once, whatever part runs."""

from __future__ import annotations

import gc
import os
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from opx_testing.fake_time import FakeTime
from tests.support.attacks import AttackReport
from tests.support.sampling import EVERY, SEED, without_most_of_the_many
from tests.support.scheduling import Together, slow_modules, turns

if TYPE_CHECKING:
    import boto3

    from opx.adapters.embedded.database import Database
    from opx.adapters.web import HttpWeb
    from tests.doubles.github_api import GitHubDouble
    from tests.doubles.misbehaving_site import MisbehavingSite
    from tests.support.cli_support import Opx
    from tests.support.webhook_support import Webhooks

EXAMPLES = 100
"""Hypothesis's own number, for tests that name none."""

FAILED_EXAMPLES = os.environ.get("OPX_TEST_EXAMPLES", "")
"""Folder in which Hypothesis keeps examples that failed, and tries them first. Without it a run depends on its seed alone."""

# A busy machine is no failure.
settings.register_profile(
    "calm",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=EXAMPLES // EVERY,
    database=DirectoryBasedExampleDatabase(FAILED_EXAMPLES) if FAILED_EXAMPLES else None,
    print_blob=True,
)
settings.load_profile("calm")


def pytest_configure(config: pytest.Config) -> None:
    """Leaves CDK's own check of templates, six seconds in each process, to `app.py`'s test: the others have cfn-lint's. In a
    sample, snapshots of tests that are left out are no error."""
    os.environ.setdefault("CDK_VALIDATION", "false")
    if EVERY > 1:
        config.option.warn_unused_snapshots = True


def pytest_report_header() -> str:
    return f"one in {EVERY} of alike cases and of slow tests (OPX_TEST_SAMPLE), by the seed {SEED} (OPX_TEST_SEED)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = without_most_of_the_many([item.nodeid for item in items])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
    if hasattr(config, "workerinput"):
        turn = turns(item.nodeid for item in items)
        items.sort(key=lambda item: turn(item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Writes the file of slow modules where `OPX_TEST_SLOW` names it."""
    if place := os.environ.get("OPX_TEST_SLOW"):
        seconds = Counter[str]()
        for report in chain(terminalreporter.getreports("passed"), terminalreporter.getreports("")):
            seconds[report.nodeid] += report.duration
        Path(place).write_text(slow_modules(seconds.items()), encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return Together(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and the libraries that they import stay to the end: the collector needn't walk them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """Nothing waits for the disk: what a process wrote outlives it all the same, and no test cuts the power."""
    from opx.adapters.embedded.database import Database

    configure = Database._configure

    def without_waiting(database: Database, connection: sqlite3.Connection) -> None:
        configure(database, connection)
        connection.execute("PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_configure", without_waiting)
        yield


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def site() -> Iterator[MisbehavingSite]:
    from tests.doubles.misbehaving_site import MisbehavingSite

    with MisbehavingSite() as running:
        yield running


@pytest.fixture
def github(site: MisbehavingSite) -> GitHubDouble:
    from tests.doubles.github_api import GitHubDouble

    return GitHubDouble(site)


@pytest.fixture
def web(site: MisbehavingSite) -> Iterator[HttpWeb]:
    """A client of the site."""
    from tests.doubles.misbehaving_site import a_web

    with closing(a_web(site)) as client:
        yield client


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    from opx.adapters.embedded.database import open_database

    database = open_database(tmp_path / "opx.db")
    yield database
    database.close()


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    from tests.support.cli_support import Opx

    return Opx(tmp_path)


@pytest.fixture
def webhooks(tmp_path: Path) -> Iterator[Webhooks]:
    from tests.support.webhook_support import webhooks_in

    found = webhooks_in(tmp_path)
    with found.services:
        yield found


@pytest.fixture
def json_logs() -> Iterator[None]:
    """Logs as a function writes them."""
    from tests.support.fakes import function_logs

    with function_logs():
        yield


@pytest.fixture(scope="session")
def attack_report() -> AttackReport:
    """Collects the results of attacks for the table of `make attack`."""
    return AttackReport()


@pytest.fixture(scope="session")
def aws_session() -> boto3.Session:
    """Credentials that open nothing. One session for all tests: it keeps the service models that it has parsed."""
    import boto3
    import botocore.session
    import moto  # noqa: F401 - before the session: it hooks itself into those that come later
    from botocore.config import Config

    from tests.support.quick_moto import remember_names

    remember_names()
    core = botocore.session.get_session()
    core.set_default_client_config(Config(user_agent="tests"))  # which is otherwise composed anew for each request
    return boto3.Session("testing", "testing", region_name="eu-central-1", botocore_session=core)


@pytest.fixture
def aws(aws_session: boto3.Session) -> Iterator[boto3.Session]:
    """An empty AWS account in memory."""
    from moto import mock_aws

    with mock_aws():
        yield aws_session
