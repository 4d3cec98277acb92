/** Documents that could not be ingested, with a retry of some or of all. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Failure } from "../api/schema";
import { Problem } from "./Failed";
import { count, moment, Paged, Refresh } from "./InboxMore";
import { useFailures } from "./InboxQueries";

/** Ids that one request retries. */
const MOST = 100;

type Chosen = "all" | string[];

async function retried(chosen: Chosen): Promise<number> {
  if (chosen === "all") return (await data(api.POST("/failures/retry", { body: { all: true } }))).sent;
  let sent = 0;
  for (let start = 0; start < chosen.length; start += MOST) {
    const failureIds = chosen.slice(start, start + MOST);
    sent += (await data(api.POST("/failures/retry", { body: { failureIds, all: false } }))).sent;
  }
  return sent;
}

function useRetry(done: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: retried,
    onSuccess: done,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["failures"] });
      void queries.invalidateQueries({ queryKey: ["status"] });
    },
  });
}

export function InboxFailures() {
  const failures = useFailures();
  const [selected, setSelected] = useState<Failure[]>([]);
  const retry = useRetry(() => setSelected([]));
  return (
    <SpaceBetween size="s">
      {retry.error ? <Problem error={retry.error} /> : null}
      {retry.data === undefined ? null : (
        <StatusIndicator type={retry.data ? "success" : "info"}>
          {retry.data} sent to be ingested again; those that fail again come back to this list.
        </StatusIndicator>
      )}
      <Paged query={failures}>
        {(pages) => {
          const items = pages.flatMap((page) => page.failures);
          return (
            <Table
              wrapLines
              selectionType="multi"
              selectedItems={selected.filter((one) => items.some((item) => item.failureId === one.failureId))}
              onSelectionChange={({ detail }) => setSelected(detail.selectedItems)}
              ariaLabels={{
                tableLabel: "Failed documents",
                selectionGroupLabel: "Selection of failed documents",
                allItemsSelectionLabel: () => "Select all",
                itemSelectionLabel: (_, item) => `Select ${item.objectKey}`,
              }}
              columnDefinitions={columns((failure) => retry.mutate([failure.failureId]), retry.isPending)}
              items={items}
              trackBy="failureId"
              empty={<Box textAlign="center">Nothing failed</Box>}
              header={
                <Header
                  variant="h2"
                  counter={count(failures, (page) => page.failures)}
                  description="The oldest first. “Retry all” sends up to 500."
                  actions={
                    <SpaceBetween size="xs" direction="horizontal">
                      <Refresh query={failures} of="failures" />
                      <Button
                        disabled={!selected.length || retry.isPending}
                        onClick={() => retry.mutate(selected.map((one) => one.failureId))}
                      >
                        {`Retry selected (${selected.length})`}
                      </Button>
                      <Button disabled={!items.length || retry.isPending} onClick={() => retry.mutate("all")}>
                        Retry all
                      </Button>
                    </SpaceBetween>
                  }
                >
                  Failed documents
                </Header>
              }
            />
          );
        }}
      </Paged>
    </SpaceBetween>
  );
}

const columns = (retry: (failure: Failure) => void, busy: boolean): TableProps.ColumnDefinition<Failure>[] => [
  {
    id: "document",
    header: "Document",
    isRowHeader: true,
    minWidth: 220,
    cell: (one) => <span style={{ overflowWrap: "anywhere" }}>{one.objectKey}</span>,
  },
  { id: "reason", header: "Reason", minWidth: 260, cell: (one) => one.reason },
  { id: "error", header: "Error", cell: (one) => one.error },
  { id: "attempts", header: "Attempts", cell: (one) => one.attempts },
  { id: "at", header: "Failed", cell: (one) => moment(one.failedAt) },
  {
    id: "retry",
    header: "Action",
    cell: (one) => (
      <Button variant="inline-link" disabled={busy} ariaLabel={`Retry ${one.objectKey}`} onClick={() => retry(one)}>
        Retry
      </Button>
    ),
  },
];
