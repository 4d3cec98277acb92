/** Known alerts with their runbooks: how each is bound, and how often it fired. */
import Box from "@cloudscape-design/components/box";
import Checkbox from "@cloudscape-design/components/checkbox";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import TextFilter from "@cloudscape-design/components/text-filter";
import { useState } from "react";
import type { BoundBy, KnownAlert, RuledRunbook } from "../api/schema";
import { CoverageChanges } from "./CoverageChanges";
import { useAlerts, useUse } from "./CoverageQueries";
import { askLink, count, documentLink, moment, Paged, Refresh } from "./InboxMore";

export function CoverageAlerts() {
  const [unbound, setUnbound] = useState(false);
  const [text, setText] = useState("");
  const alerts = useAlerts(unbound);
  const use = useUse().data;
  const wanted = text.trim().toLowerCase();
  return (
    <SpaceBetween size="m">
      <Checkbox checked={unbound} onChange={({ detail }) => setUnbound(detail.checked)}>
        Only alerts without a runbook
      </Checkbox>
      <Paged query={alerts} action="Load more alerts">
        {(pages) => {
          const items = pages.flatMap((page) => page.alerts);
          const shown = items.filter((one) => one.name.toLowerCase().includes(wanted));
          return (
            <Table
              wrapLines
              header={
                <Header
                  variant="h2"
                  counter={count(alerts, (page) => page.alerts)}
                  description="Alerts that a rule defines, a page is for, or that fired."
                  actions={<Refresh query={alerts} of="alerts" />}
                >
                  Alerts
                </Header>
              }
              filter={
                <TextFilter
                  filteringText={text}
                  filteringPlaceholder="Find in the alerts shown"
                  filteringAriaLabel="Find in the alerts shown"
                  filteringClearAriaLabel="Clear"
                  countText={wanted ? `${shown.length} of ${items.length} shown` : ""}
                  onChange={({ detail }) => setText(detail.filteringText)}
                />
              }
              ariaLabels={{ tableLabel: "Alerts and their runbooks" }}
              columnDefinitions={[...COLUMNS, answered(use), ...OUTCOMES]}
              items={shown}
              trackBy="reference"
              empty={<Box textAlign="center">{wanted ? "None of the alerts shown has this name" : "No alerts"}</Box>}
            />
          );
        }}
      </Paged>
    </SpaceBetween>
  );
}

/** Questions whose answer had the runbook, where the caller may know that. */
const answered = (use: ReadonlyMap<string, number> | undefined): TableProps.ColumnDefinition<KnownAlert> => ({
  id: "answered",
  header: "Answered (30 days)",
  cell: (one) => (use && one.documentId ? (use.get(one.documentId) ?? 0) : "–"),
});

const OUTCOMES: TableProps.ColumnDefinition<KnownAlert>[] = [
  { id: "resolved", header: "Resolved", minWidth: 110, cell: (one) => <Resolved alert={one} /> },
  { id: "owner", header: "Owner", minWidth: 100, cell: (one) => one.owner || "nobody" },
  { id: "actions", header: "Actions", minWidth: 140, cell: (one) => <CoverageChanges alert={one} /> },
];

function Resolved({ alert: { resolved, noEffect, madeWorse } }: { alert: KnownAlert }) {
  const all = resolved + noEffect + madeWorse;
  if (!all) return <>–</>;
  return <StatusIndicator type={madeWorse ? "warning" : "success"}>{`${resolved} of ${all}`}</StatusIndicator>;
}

const COLUMNS: TableProps.ColumnDefinition<KnownAlert>[] = [
  { id: "alert", header: "Alert", isRowHeader: true, minWidth: 200, cell: (one) => <Name alert={one} /> },
  { id: "binding", header: "Bound", minWidth: 160, cell: (one) => <Bound alert={one} /> },
  { id: "runbook", header: "Runbook", minWidth: 220, cell: (one) => <Runbook alert={one} /> },
  { id: "firings", header: "Firings", cell: (one) => one.firings ?? 0 },
  { id: "last", header: "Last fired", cell: (one) => (one.lastFired ? moment(one.lastFired) : "never") },
  { id: "severity", header: "Severity", cell: (one) => one.severity || "–" },
  {
    id: "rules",
    header: "Rules",
    cell: (one) => <span style={{ overflowWrap: "anywhere" }}>{one.rules?.map(fileName).join(", ") || "none"}</span>,
  },
];

const fileName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

function Name({ alert }: { alert: KnownAlert }) {
  return (
    <>
      <Link href={askLink(alert.name)} ariaLabel={`Ask: ${alert.name}`}>
        {alert.name}
      </Link>
      {alert.summary ? <Box variant="small" display="block">{alert.summary}</Box> : null}
    </>
  );
}

const BY: Record<BoundBy, string> = {
  url: "its rule names the page",
  title: "the page has its name",
  page: "the page states it",
};

function Bound({ alert }: { alert: KnownAlert }) {
  if (alert.binding === "bound") {
    return <StatusIndicator>{alert.boundBy ? BY[alert.boundBy] : "bound"}</StatusIndicator>;
  }
  return <StatusIndicator type={alert.binding === "names none" ? "error" : "warning"}>{alert.binding}</StatusIndicator>;
}

function Runbook({ alert }: { alert: KnownAlert }) {
  if (alert.runbooks?.length) return <Ruled runbooks={alert.runbooks} />;
  if (alert.documentId) return <Link href={documentLink(alert.documentId)}>{alert.title || alert.path}</Link>;
  if (alert.candidates?.length) return <>one of {alert.candidates.join(", ")}</>;
  return <>{alert.runbook ? `${alert.runbook} (not in the corpus)` : "–"}</>;
}

/** Runbooks of an alert whose rules name different ones, by the labels of the rule. */
function Ruled({ runbooks }: { runbooks: RuledRunbook[] }) {
  return (
    <ul style={{ margin: 0, paddingInlineStart: 20 }}>
      {runbooks.map((one, index) => (
        <li key={index}>
          {one.documentId ? <Link href={documentLink(one.documentId)}>{one.title || one.runbook}</Link> : one.runbook || "none"}
          <Box variant="small" display="block">
            {Object.entries(one.labels)
              .map(([name, value]) => `${name}=${value}`)
              .join(", ")}
          </Box>
        </li>
      ))}
    </ul>
  );
}
