/** Merges of two things into one: list, make, undo. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Merge, MergeState } from "../api/schema";
import { Confirm } from "./Confirm";
import { dayOf, ThingLink } from "./GraphTerms";
import { GraphThingInput } from "./GraphThingInput";
import { Loaded } from "./Loaded";
import { useTyped } from "./Unsaved";

const STATES: Record<MergeState, StatusIndicatorProps.Type> = {
  merged: "success",
  merging: "in-progress",
  undoing: "in-progress",
  undone: "stopped",
};

export function GraphMerges() {
  const client = useQueryClient();
  const [undone, setUndone] = useState<Merge | null>(null);
  const merges = useQuery({ queryKey: ["graph", "merges"], queryFn: () => data(api.GET("/graph/merges")) });
  const undo = useMutation({
    mutationFn: (mergeId: string) => data(api.DELETE("/graph/merges/{mergeId}", { params: { path: { mergeId } } })),
    onSuccess: async () => {
      setUndone(null);
      await client.invalidateQueries({ queryKey: ["graph"] });
    },
  });
  return (
    <SpaceBetween size="m">
      <Make />
      <Loaded query={merges}>
        {(found) => (
          <Listed
            merges={found.merges}
            onUndo={(merge) => {
              undo.reset();
              setUndone(merge);
            }}
          />
        )}
      </Loaded>
      {undone ? (
        <Confirm
          header="Undo this merge?"
          action="Undo"
          isBusy={undo.isPending}
          error={undo.error}
          onConfirm={() => undo.mutate(undone.mergeId)}
          onDismiss={() => setUndone(null)}
        >
          <Box>
            “{undone.source}” and “{undone.into}” become two things again, each with what the documents state about it.
          </Box>
        </Confirm>
      ) : null}
    </SpaceBetween>
  );
}

function Listed({ merges, onUndo }: { merges: Merge[]; onUndo: (merge: Merge) => void }) {
  return (
    <Table
      items={merges}
      trackBy="mergeId"
      wrapLines
      ariaLabels={{ tableLabel: "Merges" }}
      header={
        <Header variant="h2" counter={`(${merges.length})`}>
          Merges
        </Header>
      }
      empty="Nothing was merged"
      columnDefinitions={[
        { id: "source", header: "Thing", isRowHeader: true, cell: (one) => one.source },
        { id: "into", header: "Merged into", cell: (one) => <ThingLink thing={one.into} /> },
        { id: "state", header: "State", minWidth: 120, cell: (one) => <StatusIndicator type={STATES[one.state]}>{one.state}</StatusIndicator> },
        { id: "by", header: "By", minWidth: 130, cell: (one) => `${one.by || "unknown"}, ${dayOf(one.at)}` },
        { id: "undone", header: "Undone", cell: (one) => (one.undoneAt ? `${one.undoneBy || "unknown"}, ${dayOf(one.undoneAt)}` : "no") },
        {
          id: "undo",
          header: "Undo",
          cell: (one) =>
            one.state === "undone" ? null : (
              <Button ariaLabel={`Undo the merge of ${one.source} into ${one.into}`} onClick={() => onUndo(one)}>
                Undo
              </Button>
            ),
        },
      ]}
    />
  );
}

function Make() {
  const client = useQueryClient();
  const [source, setSource] = useTyped("");
  const [into, setInto] = useTyped("");
  const [isAsking, setAsking] = useState(false);
  const merge = useMutation({
    mutationFn: () => data(api.POST("/graph/merges", { body: { from: source.trim(), into: into.trim() } })),
    onSuccess: async () => {
      setAsking(false);
      setSource("");
      setInto("");
      await client.invalidateQueries({ queryKey: ["graph"] });
    },
  });
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          merge.reset();
          if (source.trim() && into.trim()) setAsking(true);
        }}
      >
        <SpaceBetween size="s">
          <GraphThingInput label="Merge this thing" description="It becomes an alias" value={source} onChange={setSource} />
          <GraphThingInput label="Into this thing" value={into} onChange={setInto} />
          <Button formAction="submit">Merge</Button>
          {merge.data ? (
            <StatusIndicator>
              {merge.data.source} is merged into {merge.data.into}
            </StatusIndicator>
          ) : null}
        </SpaceBetween>
      </form>
      {isAsking ? (
        <Confirm
          header="Merge these two things?"
          action="Merge"
          isBusy={merge.isPending}
          error={merge.error}
          onConfirm={() => merge.mutate()}
          onDismiss={() => setAsking(false)}
        >
          <Box>
            “{source}” becomes another name of “{into}”. The evidence of both is kept, and the merge can be undone.
          </Box>
        </Confirm>
      ) : null}
    </>
  );
}
