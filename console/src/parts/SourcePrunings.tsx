/** The last pruning runs: removed and kept versions, and categories that were stopped. For operators. */
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { PruneReport } from "../api/schema";
import { moment } from "./InboxMore";
import { Loaded } from "./Loaded";

export function SourcePrunings() {
  const [open, setOpen] = useState(false);
  const prunings = useQuery({
    queryKey: ["prunings"],
    queryFn: () => data(api.GET("/prunings", { params: { query: { limit: 30 } } })),
    enabled: open,
  });
  return (
    <ExpandableSection
      variant="container"
      headerText="Recent prunings"
      headerDescription="Versions past their retention that were removed, over all clients"
      expanded={open}
      onChange={({ detail }) => setOpen(detail.expanded)}
    >
      <Loaded query={prunings}>
        {({ prunings: items }) => (
          <Table
            variant="embedded"
            wrapLines
            ariaLabels={{ tableLabel: "Recent prunings" }}
            columnDefinitions={COLUMNS}
            items={items}
            empty={<Box textAlign="center">Nothing was pruned yet</Box>}
          />
        )}
      </Loaded>
    </ExpandableSection>
  );
}

const numbers = (of: Record<string, number> | undefined): string =>
  Object.entries(of ?? {})
    .map(([name, number]) => `${name}: ${number}`)
    .join(", ") || "–";

const COLUMNS: TableProps.ColumnDefinition<PruneReport>[] = [
  {
    id: "started",
    header: "Started",
    isRowHeader: true,
    cell: (one) => `${moment(one.started)}${one.dryRun ? " (dry run)" : ""}`,
  },
  { id: "versions", header: "Versions", cell: (one) => one.versions ?? 0 },
  { id: "removed", header: "Removed by category", cell: (one) => numbers(one.removed) },
  { id: "kept", header: "Kept", cell: (one) => numbers(one.kept) },
  { id: "held", header: "Held", cell: (one) => numbers(one.held) },
  { id: "stopped", header: "Stopped", minWidth: 200, cell: (one) => <Stopped report={one} /> },
];

function Stopped({ report }: { report: PruneReport }) {
  const stopped = report.stopped ?? [];
  if (!stopped.length && !report.notes?.length && !report.unfinished) return <>–</>;
  return (
    <>
      {stopped.map((one) => (
        <StatusIndicator key={one.category} type="warning">
          {`${one.category || "all together"}: ${one.due} of ${one.total} were due, so that none was removed`}
        </StatusIndicator>
      ))}
      {report.unfinished ? <StatusIndicator type="pending">unfinished</StatusIndicator> : null}
      {report.notes?.map((note) => <div key={note}>{note}</div>)}
    </>
  );
}
