/** The entries that were counted for a pattern. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useState } from "react";
import type { PatternOccurrence, PatternView } from "../api/schema";

const MOST_SPLIT = 50;
/** Entries that one call splits off. */

export function LearningOccurrences({ view, onSplit }: { view: PatternView; onSplit: (ids: string[]) => void }) {
  const [chosen, setChosen] = useState<PatternOccurrence[]>([]);
  const counted = new Set(view.occurrences.map((one) => one.entryId));
  const ids = chosen.map((one) => one.entryId).filter((id) => counted.has(id));
  return (
    <Table
      items={view.occurrences}
      trackBy="entryId"
      wrapLines
      selectionType="multi"
      selectedItems={chosen}
      onSelectionChange={({ detail }) => setChosen(detail.selectedItems.slice(0, MOST_SPLIT))}
      ariaLabels={{
        tableLabel: "Counted entries",
        selectionGroupLabel: "Entries to split off",
        allItemsSelectionLabel: () => "Select all entries",
        itemSelectionLabel: (_, one) => `Select the entry ${one.entryId}`,
      }}
      header={
        <Header
          variant="h3"
          counter={`(${view.occurrences.length}${view.more ? ", and more" : ""})`}
          description={`Select those that were counted wrongly, at most ${MOST_SPLIT} at a time.`}
          actions={
            <Button disabled={!ids.length} onClick={() => onSplit(ids)}>
              Split off
            </Button>
          }
        >
          Counted entries
        </Header>
      }
      empty="No entry is counted for it"
      columnDefinitions={[
        { id: "entry", header: "Entry", isRowHeader: true, cell: (one) => one.entryId },
        {
          id: "worked",
          header: "Result",
          minWidth: 110,
          cell: (one) => <StatusIndicator type={one.worked ? "success" : "error"}>{one.worked ? "worked" : "failed"}</StatusIndicator>,
        },
        { id: "at", header: "When", minWidth: 130, cell: (one) => one.at.slice(0, 16).replace("T", " ") },
        { id: "project", header: "Project", cell: (one) => one.projectId },
        { id: "incident", header: "Incident", cell: (one) => one.incident || <Box variant="small">none</Box> },
        { id: "reason", header: "Counted because", cell: (one) => (one.reason === "key" ? "the same text" : one.reason) },
      ]}
    />
  );
}
