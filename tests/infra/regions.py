"""Types that CloudFormation has in each region, as cfn-lint ships them. A type has one schema for all regions, or few."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

SEARCH = "AWS::OpenSearchServerless::Collection"


def _folder() -> Path:
    import cfnlint  # type: ignore[import-untyped]  # heavy, and imported by one process of the test run only

    return Path(cfnlint.__file__).parent / "data" / "schemas"


@cache
def types(region: str) -> dict[str, str]:
    """The types of a region, each with the name of its schema."""
    found: dict[str, str] = json.loads((_folder() / "providers" / f"{region}.json").read_text())
    return found


@cache
def with_search() -> tuple[str, ...]:
    """Regions that have OpenSearch Serverless."""
    regions = (path.stem for path in sorted((_folder() / "providers").glob("*-*.json")))
    return tuple(region for region in regions if SEARCH in types(region))


def schema(region: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_folder() / "resources" / f"{types(region)[kind]}.json").read_text())
    return found
