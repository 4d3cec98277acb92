"""Prints the pairs that are judged wrong, and the figures: `python -m tests.quality.contradictions [development|unseen]`."""

import sys

from tests.quality.contradictions.measuring import figures, judged, pairs


def main(name: str) -> None:
    for pair in pairs(name):
        found = judged(pair)
        mark = "ok  " if bool(found) is pair.contradicts else ("MISS" if pair.contradicts else "FALSE")
        shown = [(one.about, one.one.text, one.other.text) for one in found]
        print(mark, pair.why, *shown if mark == "FALSE" else ())
    print(figures(name))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["unseen"]))
