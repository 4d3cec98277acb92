"""One emulator with one environment in it for all tests here; without one they are skipped, and the reason is printed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.deployment.assemblies import Assembly, restrict
from tests.deployment.cdk import Cdk, Made
from tests.deployment.emulator import Emulator, running_emulator
from tests.deployment.engines import Engine, running_engine
from tests.deployment.environments import ENVIRONMENT, choices
from tests.deployment.installation import EmulatorUnavailableError, Installation, installed_emulator
from tests.deployment.system import SystemUnderTest
from tests.doubles.bedrock import BedrockDouble

HERE = Path(__file__).parent
TEST_SECONDS = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.deployment)
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the emulator's last output to the report of a failure: it contains the functions' tracebacks."""
    report = yield
    emulator = getattr(item, "funcargs", {}).get("emulator")
    if report.failed and isinstance(emulator, Emulator):
        report.sections.append(("the emulator's log", emulator.log_tail()))
    return report


@pytest.fixture(scope="session")
def bedrock() -> Iterator[BedrockDouble]:
    with BedrockDouble() as double:
        yield double


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with running_engine() as started:
        yield started


@pytest.fixture(scope="session")
def installation() -> Installation:
    try:
        return installed_emulator()
    except EmulatorUnavailableError as exc:
        pytest.skip(f"no emulator of AWS: {exc}")


@pytest.fixture(scope="session")
def emulator(installation: Installation, bedrock: BedrockDouble) -> Iterator[Emulator]:
    try:
        with running_emulator(
            installation, endpoints={"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": bedrock.endpoint}
        ) as started:
            yield started
    except EmulatorUnavailableError as exc:
        pytest.skip(f"no emulator of AWS: {exc}")


@pytest.fixture(scope="session")
def cdk(emulator: Emulator) -> Cdk:
    """CDK's command, for an account that was bootstrapped."""
    try:
        command = Cdk(emulator)
    except EmulatorUnavailableError as exc:
        pytest.skip(f"no deployment: {exc}")
    command.bootstrap()
    return command


@pytest.fixture(scope="session")
def context(installation: Installation, engine: Engine) -> dict[str, str]:
    return choices(installation, engine)


@pytest.fixture(scope="session")
def assembly(
    cdk: Cdk, emulator: Emulator, context: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Assembly:
    """The application as it was synthesised, less what the emulator doesn't know."""
    folder = tmp_path_factory.mktemp("assembly")
    cdk.synthesise(context, folder)
    return restrict(folder, emulator.resource_types())


@pytest.fixture(scope="session")
def deployment(cdk: Cdk, assembly: Assembly, context: dict[str, str]) -> Made:
    """`make deploy` into the empty account, with the examination at its end."""
    made = cdk.make("deploy", assembly, context, doctor="quiet")
    assert made.status == 0, made.output[-4000:]
    return made


@pytest.fixture(scope="session")
def deployed(deployment: Made) -> set[str]:
    """The stacks that were deployed."""
    return deployment.changed


@pytest.fixture(scope="session")
def system(deployed: set[str], emulator: Emulator, engine: Engine, bedrock: BedrockDouble) -> SystemUnderTest:
    return SystemUnderTest(emulator, engine, bedrock, ENVIRONMENT)
