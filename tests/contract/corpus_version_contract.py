"""Contract of `CorpusVersion`. An adapter's test class provides `index`, which is written to, and `version`, which
reports its versions."""

from __future__ import annotations

from opx.ports import SearchIndex, SearchRequest
from opx.ports.search import CorpusVersion
from opx_testing.entries import EVERYONE, a_change, a_removal, an_entry, any_vector


def the(version: CorpusVersion) -> str:
    return version.current().version


class CorpusVersionContract:
    """Fixtures: `index`, an empty index, and `version`."""

    def test_there_is_one_before_the_first_document(self, index: SearchIndex, version: CorpusVersion) -> None:
        assert the(version) != ""

    def test_it_stays_while_nothing_changes(self, index: SearchIndex, version: CorpusVersion) -> None:
        index.apply([a_change(an_entry())])
        before = the(version)
        index.search(SearchRequest(EVERYONE, text="restart", vector=any_vector("q"), depth=5))
        index.count(EVERYONE)
        index.references("nothing")
        assert the(version) == before

    def test_adding_replacing_and_removing_each_give_another_one(
        self, index: SearchIndex, version: CorpusVersion
    ) -> None:
        seen = [the(version)]
        entry, other = an_entry("Restart it."), an_entry("Stop it.")
        (first,) = index.apply([a_change(entry)])
        seen.append(the(version))
        (second,) = index.apply([a_change(other, superseded=first)])
        seen.append(the(version))
        index.apply([a_removal(other, second)])
        seen.append(the(version))
        index.apply([a_change(entry)])  # the same as once before, and yet another state
        seen.append(the(version))
        assert len(set(seen)) == 5
