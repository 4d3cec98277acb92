"""Prints mypy's settings without the types of CDK, which take most of its time.

`.ci/run` uses them: each call of CDK is made there, in tests of `infra`, and jsii checks its arguments. `make lint` checks
the types as well.
"""

from __future__ import annotations

from pathlib import Path

OVERRIDES = """
[[tool.mypy.overrides]]
module = ["aws_cdk.*", "cdk_nag.*"]
follow_imports = "skip"

[[tool.mypy.overrides]]
module = ["app", "infra.*", "tests.infra.*"]
disallow_subclassing_any = false
warn_return_any = false
warn_unused_ignores = false
disable_error_code = ["valid-type"]
"""

print(Path("pyproject.toml").read_text(encoding="utf-8") + OVERRIDES)  # noqa: T201 - it is a program
