"""Facts about the installation and about a home, for `opx doctor`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from opx import __version__, plugins
from opx.edges.cli.output import plural, readable_size
from opx.edges.cli.session import Session
from opx.edges.cli.status import size_of
from opx.edges.doctor import WRITABLE, CheckResult, Outcome
from opx.errors import IncompatibleHomeError, OpxError, UnwritableStoreError
from opx.operations.corpus import GetStatus, get_status
from opx.runtime.extras import EXTRAS
from opx.runtime.knowledge_file import unread_sections


def installation_results(session: Session) -> Iterator[CheckResult]:
    """Versions, extras, and the home of this machine with its counts and its model. They precede the examination, which
    adds documents of its own. Raises `IncompatibleHomeError` for a home of a newer program."""
    yield _versions()
    yield _extras()
    yield _plugins()
    yield from _unread(session)
    yield from _of_home(session)


def _versions() -> CheckResult:
    system = f"{platform.system()} {platform.machine()}"
    return CheckResult("versions", Outcome.OK, f"opx {__version__}, Python {platform.python_version()}, {system}")


def missing_extras() -> dict[str, list[str]]:
    """Extras that aren't installed, or only in part, each with its missing modules."""
    missing = {extra: [one for one in modules.split() if not _is_installed(one)] for extra, modules in EXTRAS.items()}
    return {extra: modules for extra, modules in missing.items() if modules}


def _is_installed(module: str) -> bool:
    return module in sys.modules or find_spec(module) is not None


def _extras() -> CheckResult:
    missing = missing_extras()
    there = [extra for extra in EXTRAS if extra not in missing]
    detail = f"installed: {', '.join(there) or 'none'}"
    if not missing:
        return CheckResult("extras", Outcome.OK, detail)
    names = ", ".join(f"{extra} (no {', '.join(modules[:3])})" for extra, modules in missing.items())
    remedy = f"pip install 'opx-knowledge[{','.join(missing)}]', if you need them"
    return CheckResult("extras", Outcome.SKIPPED, f"{detail}; not installed: {names}", remedy)


def _plugins() -> CheckResult:
    if problems := list(plugins.problems()):
        return CheckResult("plugins", Outcome.FAILED, "; ".join(problems), "uninstall or update their distributions")
    counts = [(len(plugins.names(group)), group.removeprefix("opx.")) for group in plugins.GROUPS]
    return CheckResult("plugins", Outcome.OK, ", ".join(f"{count} {group}" for count, group in counts if count))


def _unread(session: Session) -> Iterator[CheckResult]:
    path = session.settings.knowledge_file
    for section, distribution in unread_sections(Path(path) if path else None).items():
        yield CheckResult(
            section, Outcome.FAILED, "nothing reads this section of knowledge.yaml", f"pip install {distribution}"
        )


_REPAIR = "opx repair makes what it can from what is left"


def _of_home(session: Session) -> Iterator[CheckResult]:
    home = session.settings.home_path
    if not session.has_knowledge:
        yield CheckResult("home", Outcome.SKIPPED, f"{home} doesn't exist yet", "opx ingest PATH..., or opx demo")
        return
    try:
        status = session.client.call(get_status, GetStatus())
    except IncompatibleHomeError:
        raise
    except OpxError as exc:
        remedy = WRITABLE if isinstance(exc, UnwritableStoreError) else _REPAIR
        yield CheckResult("home", Outcome.FAILED, str(exc), remedy)
        return
    chunks = "chunks unknown" if status.chunks is None else plural(status.chunks, "chunk")
    waiting = f", {status.waiting:,} waiting" if status.waiting else ""
    failed = f", {status.failed:,} failed" if status.failed else ""
    counts = f"{plural(status.documents, 'document')}, {chunks}{waiting}{failed}"
    size = f", {readable_size(size_of(home))}" if session.settings.backend == "embedded" else ""
    if status.damage:
        yield CheckResult("home", Outcome.FAILED, "; ".join(status.damage), _REPAIR)
        return
    remedy = "opx failed lists them with their reasons" if status.failed else ""
    yield CheckResult("home", Outcome.OK, f"{home}{size}: {counts}", remedy)
    yield CheckResult("model", Outcome.OK, f"{status.embedding_model or 'unknown'}; index {status.index}")
