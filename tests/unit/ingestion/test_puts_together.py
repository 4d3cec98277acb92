"""Files that are derived from the documents of a batch, and a disk that can't keep them."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from opx.adapters.embedded import object_store
from opx.adapters.embedded.durable_files import sync_all
from opx.domain.scopes import Scope
from opx.ports import SearchFilter
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import WordEmbedder


def test_batch_whose_files_are_not_durable_is_repeated_before_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    where = SearchFilter(scopes=(Scope().key,))
    with bootstrap(Settings(home=str(tmp_path), retry_base_seconds=0.0), embedder=WordEmbedder()) as system:

        def full_at_first(paths: Sequence[Path]) -> None:
            synced.append(len(paths))
            if len(synced) == 1:
                assert system.index.count(where) == 0
                raise OSError(errno.ENOSPC, "No space left on device")
            sync_all(paths)

        monkeypatch.setattr(object_store, "sync_all", full_at_first)
        texts = [f"# Disk {number}\n\nFind the biggest directories with du.\n" for number in range(3)]
        result = system.manager.ingest_batch("internal", "runbooks/procedures", texts)
        assert [outcome.result for outcome in result.outcomes] == ["ingested"] * 3
        assert system.index.count(where) == 3
    assert synced[0] == 6
    assert len(synced) == 1 + 3
