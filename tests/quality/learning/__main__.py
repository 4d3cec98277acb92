"""`python -m tests.quality.learning` has projects of a client learn all patterns and another one query them, and prints how
often the right one is among the first three, in which band, and how often one is returned that doesn't help, for the half
that coefficients are fitted on. `--fit` fits them first (`--write`: into the library), `--judge` also prints the half that
is never fitted, and `--again` has a third project solve the same problems again, in the same way or in another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from opx.learning import similarity
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.quality.learning.cases import HELD_OUT, TUNED, cases, patterns, repeats, teach
from tests.quality.learning.figures import answered, lines, table, teach_again
from tests.quality.learning.fitting import fitted, write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.quality.learning", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the models of similarity and print them")
    parser.add_argument("--write", action="store_true", help="with --fit: write them into the library, and use them")
    parser.add_argument("--judge", action="store_true", help="also print the half that is never fitted")
    parser.add_argument("--again", action="store_true", help="capture the same problems again")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, bootstrap(Settings(home=str(Path(folder)))) as services:
        sys.stdout.writelines(f"{line}\n" for line in _measured(services, given))


def _measured(services: System, given: argparse.Namespace) -> Iterator[str]:
    names = teach(services, patterns())
    if given.fit:
        content = fitted(services, names, cases())
        yield str(content["models"])
        if given.write:
            write(content)
            similarity.models.cache_clear()
    for half in (TUNED, HELD_OUT) if given.judge else (TUNED,):
        yield from table(list(answered(services, names, [case for case in cases() if case.half == half])), half)
    if given.again:
        found = teach_again(services, repeats())
        yield from lines(services, names, cases(), repeats(), found)


if __name__ == "__main__":
    main()
