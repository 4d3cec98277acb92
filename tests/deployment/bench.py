"""Deploys into the emulator and measures: until the first answer, and questions over many chunks, one after the other and
in every mode.

`make bench-deploy`. The embedding model is a double that answers at once, and the emulator is not Lambda: the figures
are those of our code, the engine and the machine, without what AWS adds.
"""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from opx.domain.queries import SearchMode
from opx.ports import Vector
from opx.runtime.metrics import Metric
from opx_aws.opensearch import OpenSearchIndex
from tests.benchmarks.search_speed import CHUNKS_A_DOCUMENT, Corpus, percentile
from tests.deployment.assemblies import restrict
from tests.deployment.cdk import Cdk
from tests.deployment.clients import engine_client
from tests.deployment.emulator import running_emulator
from tests.deployment.engines import DIMENSION, INDEX, Engine, running_engine
from tests.deployment.environments import ENVIRONMENT, choices
from tests.deployment.installation import EmulatorUnavailableError, Installation, installed_emulator
from tests.deployment.system import RETRIEVE, SystemUnderTest
from tests.doubles.bedrock import BedrockDouble
from tests.support.agent_calls import a_function_event

CHUNKS, QUESTIONS, WARM_UP = 10_000, 200, 20
DOCUMENTS_A_BATCH = 125


class WideCorpus(Corpus):
    """With vectors of the deployed dimension."""

    def vectors(self, count: int) -> list[Vector]:
        rows = self._numpy.standard_normal((count, DIMENSION), dtype=np.float32)
        return list(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def main() -> None:
    """Print the figures as JSON."""
    with ExitStack() as stack:
        try:
            installation = installed_emulator()
            bedrock, engine = stack.enter_context(BedrockDouble()), stack.enter_context(running_engine())
            endpoints = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": bedrock.endpoint}
            emulator = stack.enter_context(running_emulator(installation, endpoints=endpoints))
            cdk = Cdk(emulator)
        except EmulatorUnavailableError as exc:
            print(f"nothing measured: {exc}")
            return
        folder = Path(stack.enter_context(TemporaryDirectory()))
        figures: dict[str, object] = {"engine": engine.name, "python": installation.python}
        figures |= {"processors": os.cpu_count(), "machine": platform.machine()}
        system = SystemUnderTest(emulator, engine, bedrock, ENVIRONMENT)
        figures |= _first_answer(system, cdk, installation, folder)
        figures |= _questions(system, engine)
        print(json.dumps(figures, indent=2))


def _first_answer(system: SystemUnderTest, cdk: Cdk, installation: Installation, folder: Path) -> dict[str, float]:
    """Seconds for each step, from an empty account to an answer."""
    clock = _Clock()
    cdk.bootstrap()
    clock.note("bootstrap_s")
    cdk.synthesise(choices(installation, system.engine), folder)
    clock.note("synth_s")
    cdk.deploy(restrict(folder, system.emulator.resource_types()))
    clock.note("deploy_s")
    key = "documents/runbooks/first.md"
    system.put(key, "# First runbook\n\nThe very first answer comes from here.")
    system.ingested(key, "very first answer")
    clock.note("first_document_s")
    while "very first answer" not in system.ask("first runbook"):
        time.sleep(0.1)
    clock.note("first_answer_s")
    return clock.noted


def _questions(system: SystemUnderTest, engine: Engine) -> dict[str, float]:
    corpus = WideCorpus()
    started = time.perf_counter()
    with engine_client(engine.endpoint) as client:
        index = OpenSearchIndex(client, INDEX)
        changes = corpus.changes(CHUNKS)
        for _ in range(0, CHUNKS // CHUNKS_A_DOCUMENT, DOCUMENTS_A_BATCH):
            index.apply(change for change, _ in zip(changes, range(DOCUMENTS_A_BATCH), strict=False))
    figures = {"chunks": float(CHUNKS), "fill_s": time.perf_counter() - started}
    queries = [corpus.text(4 + n % 5) for n in range(WARM_UP + QUESTIONS)]
    if "Nearest candidate" not in system.ask(queries[0]):  # of made-up words, none is an answer
        raise RuntimeError("nothing was found among the chunks: there is nothing to measure")
    for mode in SearchMode:
        times = [_timed(system, question, mode) for question in queries][WARM_UP:]
        for stage, taken in {"invoke": times, **_stages(system)}.items():
            figures |= {f"{mode}_{stage}_p{at}_ms": percentile(taken, at) for at in (50, 95)}
    return {name: round(value, 1) for name, value in figures.items()}


def _timed(system: SystemUnderTest, question: str, mode: SearchMode) -> float:
    started = time.perf_counter()
    system.invoke(a_function_event("search_docs", query=question, thoroughness=mode.value))
    return 1000 * (time.perf_counter() - started)


def _stages(system: SystemUnderTest) -> dict[str, list[float]]:
    """Milliseconds by stage of the last questions, as the function itself reported them."""
    found: dict[str, list[float]] = {}
    for line in system.log(system.names.function(RETRIEVE)):
        if f'"{Metric.STAGE_LATENCY}"' in line:
            record = json.loads(line)
            found.setdefault(record["stage"], []).extend(record[Metric.STAGE_LATENCY])
    return {stage: times[-QUESTIONS:] for stage, times in found.items()}


class _Clock:
    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.noted: dict[str, float] = {}

    def note(self, name: str) -> None:
        now = time.perf_counter()
        self.noted[name] = round(now - self._last, 1)
        self._last = now


if __name__ == "__main__":
    main()
