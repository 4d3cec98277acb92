/** What the last pruning runs removed and kept. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Excess, PruneReport } from "../api/schema";
import { Loaded } from "./Loaded";

const FEW = 30;
const MOST = 400;
/** Runs that the API gives at most. */

export function HealthPrunings() {
  const [limit, setLimit] = useState(FEW);
  const prunings = useQuery({
    queryKey: ["prunings", limit],
    queryFn: () => data(api.GET("/prunings", { params: { query: { limit } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={prunings}>
      {(found) => (
        <Runs
          runs={found.prunings}
          isBusy={prunings.isFetching}
          onMore={found.prunings.length >= limit && limit < MOST ? () => setLimit(MOST) : undefined}
        />
      )}
    </Loaded>
  );
}

function Runs({ runs, isBusy, onMore }: { runs: PruneReport[]; isBusy: boolean; onMore?: () => void }) {
  return (
    <Table
      items={runs}
      trackBy="started"
      wrapLines
      ariaLabels={{ tableLabel: "Pruning runs" }}
      header={
        <Header variant="h2" counter={`(${runs.length})`} description="Removals of documents past their retention, over all clients">
          Pruning runs
        </Header>
      }
      empty="No run is on record"
      footer={
        onMore ? (
          <Button loading={isBusy} onClick={onMore}>
            Load more
          </Button>
        ) : null
      }
      columnDefinitions={[
        { id: "started", header: "Started", isRowHeader: true, minWidth: 130, cell: (one) => one.started.slice(0, 16).replace("T", " ") },
        { id: "state", header: "State", minWidth: 140, cell: (one) => <State run={one} /> },
        { id: "until", header: "Past retention by", cell: (one) => one.until.slice(0, 10) },
        { id: "versions", header: "Removed versions", cell: (one) => one.versions },
        { id: "chunks", header: "Removed passages", cell: (one) => one.chunks },
        { id: "removed", header: "By category", cell: (one) => <Counts counts={one.removed} /> },
        { id: "kept", header: "Kept, by reason", cell: (one) => <Counts counts={one.kept} /> },
        { id: "held", header: "Kept by a hold", cell: (one) => <Counts counts={one.held} /> },
        { id: "notes", header: "Notes", cell: (one) => <Notes run={one} /> },
      ]}
    />
  );
}

function State({ run }: { run: PruneReport }) {
  const words = run.dryRun ? "trial, nothing removed" : "finished";
  if (run.stopped?.length) return <StatusIndicator type="error">stopped</StatusIndicator>;
  if (run.unfinished) return <StatusIndicator type="in-progress">unfinished: goes on in the next run</StatusIndicator>;
  return <StatusIndicator>{words}</StatusIndicator>;
}

function Counts({ counts = {} }: { counts?: Record<string, number> }) {
  const entries = Object.entries(counts);
  if (!entries.length) return <Box variant="small">none</Box>;
  return entries.map(([name, value]) => (
    <div key={name}>
      {name}: {value}
    </div>
  ));
}

function Notes({ run }: { run: PruneReport }) {
  return (
    <>
      {run.stopped?.map((one) => (
        <div key={one.category}>{excessOf(one)}</div>
      ))}
      {run.notes?.map((note) => (
        <div key={note}>{note}</div>
      ))}
    </>
  );
}

function excessOf({ category, due, total, retentionBefore, retention }: Excess): string {
  const changed = retentionBefore === retention ? "" : `; the retention changed from ${retentionBefore || "none"} to ${retention || "none"}`;
  return `${category || "all categories"}: ${due} of ${total} would be removed, which is too many${changed}`;
}
