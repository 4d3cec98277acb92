"""`python -m tests.quality.learning` has projects of a client learn all patterns and another one query them, and prints how
often the right one is among the first three, and how often one is returned that doesn't help; for the half that thresholds
were tuned on and for the one that was held out. Then a third project solves the same problems again, in the same way or in
another. With `--fit` it also prints the coefficients that the tuned half gives."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from opx.settings import Settings
from opx.system import bootstrap
from tests.quality.learning.again import lines, teach_again
from tests.quality.learning.cases import cases, patterns, repeats
from tests.quality.learning.figures import answered, table
from tests.quality.learning.fitting import fits
from tests.quality.learning.world import teach


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.quality.learning", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the models of similarity and print them")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, bootstrap(Settings(home=str(Path(folder)))) as services:
        names = teach(services, patterns())
        sys.stdout.writelines(f"{line}\n" for line in table(list(answered(services, names, cases()))))
        if given.fit:
            sys.stdout.writelines(f"{line}\n" for line in fits(services, names, cases()))
        found = teach_again(services, repeats())
        sys.stdout.writelines(f"{line}\n" for line in lines(services, names, cases(), repeats(), found))


if __name__ == "__main__":
    main()
