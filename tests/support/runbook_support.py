"""A folder with a runbook whose commands have placeholders, and a rule whose alert names it."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli_support import Opx

PAGE = """\
---
title: Consumer falls behind
owner: streams-team
---
# Consumer falls behind

## Before you begin

You need the role `kafka-admin`.

## Steps

1. Look at the group.

   ```bash
   kubectl -n <namespace> exec  <pod> -- kafka-consumer-groups.sh --describe
   ```

   You should see a lag of 0.

2. Restart the consumer, and see that it is up.

   **Warning:** work in flight is done twice.

   ```bash
   kubectl -n <namespace> rollout restart deployment/consumer
   ```

   ```bash
   kubectl -n <namespace> get pods
   ```

3. Delete its volume.

   ```bash
   kubectl -n <namespace> delete pvc data
   ```
"""
RULES = """\
groups:
  - name: kafka
    rules:
      - alert: GroupIsSlow
        labels: {severity: critical}
        annotations: {runbook_url: "https://wiki.example.com/ops/kafka-lag.html#causes"}
      - alert: Elsewhere
        annotations: {runbook_url: "https://wiki.example.com/ops/nothing"}
      - alert: Bare
"""
ALERT = ("GroupIsSlow", "--label", "namespace=prod", "--label", "pod=web-1")


def opx_with_runbook(folder: Path) -> Opx:
    """The command on a folder with the runbook, its rules, and a page without steps."""
    opx = Opx(folder)
    opx.write("runbooks/kafka-lag.md", PAGE)
    opx.write("runbooks/tea.md", "# Tea\n\nTea needs hot water.\n")
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    rules = opx.folder / "rules.yaml"
    rules.write_text(RULES)
    assert opx("alerts", "import", rules).exit_code == 0
    return opx
