/** Pairs of documents that say nearly the same: one of them is kept. */
import Box from "@cloudscape-design/components/box";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { DuplicatePair, SimilarDocument } from "../api/schema";
import { Confirm } from "./Confirm";
import { useDelete } from "./DocumentChanges";
import { counted, day, documentLink, Refresh } from "./InboxMore";
import { DUPLICATES, useDuplicates } from "./InboxQueries";
import { Loaded } from "./Loaded";

interface Chosen {
  kept: SimilarDocument;
  left: SimilarDocument;
}

export function InboxDuplicates() {
  const duplicates = useDuplicates();
  const [chosen, setChosen] = useState<Chosen>();
  return (
    <Loaded query={duplicates}>
      {({ pairs, compared, more }) => (
        <SpaceBetween size="s">
          {more ? <StatusIndicator type="info">There are more documents than are compared at once.</StatusIndicator> : null}
          <Table
            wrapLines
            header={
              <Header
                variant="h2"
                counter={counted(pairs, more)}
                description={`Passages with nearly the same words, in ${compared} documents; answers show the more trusted one alone.`}
                actions={<Refresh query={duplicates} of="near-duplicates" />}
              >
                Near-duplicates
              </Header>
            }
            ariaLabels={{ tableLabel: "Near-duplicates" }}
            columnDefinitions={columns(setChosen)}
            items={pairs}
            trackBy={(one) => `${one.first.key} ${one.second.key} ${one.second.scope}`}
            empty={<Box textAlign="center">No two documents say nearly the same</Box>}
          />
          {chosen ? <Removal {...chosen} onClose={() => setChosen(undefined)} /> : null}
        </SpaceBetween>
      )}
    </Loaded>
  );
}

function Removal({ kept, left, onClose }: Chosen & { onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useDelete(left.documentId);
  const done = (): void => {
    void queries.invalidateQueries({ queryKey: DUPLICATES });
    onClose();
  };
  return (
    <Confirm
      header="Keep one of them?"
      action="Keep one and delete the other"
      isBusy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate(undefined, { onSuccess: done })}
      onDismiss={onClose}
    >
      <div>
        “{kept.title}” ({kept.key}) stays. “{left.title}” ({left.key}) is deleted: its versions stay readable, and can be
        restored.
      </div>
    </Confirm>
  );
}

const columns = (choose: (chosen: Chosen) => void): TableProps.ColumnDefinition<DuplicatePair>[] => [
  { id: "first", header: "Document", isRowHeader: true, minWidth: 220, cell: (one) => <Similar document={one.first} /> },
  { id: "second", header: "Says the same", minWidth: 220, cell: (one) => <Similar document={one.second} /> },
  { id: "share", header: "Passages", cell: (one) => `${one.passages} of ${one.of}` },
  {
    id: "actions",
    header: "Action",
    cell: ({ first, second }) => (
      <ButtonDropdown
        variant="icon"
        expandToViewport
        ariaLabel={`Actions for ${first.key} and ${second.key}`}
        items={[
          { id: "first", text: `Keep ${first.key}` },
          { id: "second", text: `Keep ${second.key}` },
        ]}
        onItemClick={({ detail }) => choose(detail.id === "first" ? { kept: first, left: second } : { kept: second, left: first })}
      />
    ),
  },
];

function Similar({ document }: { document: SimilarDocument }) {
  return (
    <SpaceBetween size="xxs">
      <Link href={documentLink(document.documentId)}>{document.title}</Link>
      <Box variant="small">
        {document.key}, {document.owner || "nobody"}, updated {day(document.lastUpdated)}
      </Box>
    </SpaceBetween>
  );
}
