/** Captured learnings that nobody has verified: nobody is shown them until somebody states that they worked. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import RadioGroup from "@cloudscape-design/components/radio-group";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { StagingEntry } from "../api/schema";
import { Problem } from "./Failed";
import { count, moment, Paged, Refresh } from "./InboxMore";
import { useEntries } from "./InboxQueries";
import { useTyped } from "./Unsaved";

type Result = "worked" | "no_effect" | "made_worse";

export function InboxEntries() {
  const entries = useEntries();
  const [open, setOpen] = useState<StagingEntry>();
  const [done, setDone] = useState("");
  return (
    <SpaceBetween size="s">
      {done ? <StatusIndicator>{done}</StatusIndicator> : null}
      <Paged query={entries}>
        {(pages) => (
          <Table
            wrapLines
            header={
              <Header
                variant="h2"
                counter={count(entries, (page) => page.entries)}
                description="Captured by agents and people, the newest first; answers leave them out until they are verified."
                actions={<Refresh query={entries} of="learnings" />}
              >
                Unverified learnings
              </Header>
            }
            ariaLabels={{ tableLabel: "Unverified learnings" }}
            columnDefinitions={columns(setOpen)}
            items={pages.flatMap((page) => page.entries)}
            trackBy="id"
            empty={<Box textAlign="center">Nothing waits for verification</Box>}
          />
        )}
      </Paged>
      {open ? (
        <Verification
          entry={open}
          close={(recorded) => {
            setOpen(undefined);
            if (recorded) setDone(`recorded: ${headline(open)}: ${recorded.replace("_", " ")}`);
          }}
        />
      ) : null}
    </SpaceBetween>
  );
}

const headline = (entry: StagingEntry): string =>
  entry.failure_description || entry.human_feedback || entry.approved_approach || entry.error_message || entry.id;

const columns = (verify: (entry: StagingEntry) => void): TableProps.ColumnDefinition<StagingEntry>[] => [
  { id: "what", header: "Learning", isRowHeader: true, minWidth: 260, cell: (one) => <Learning entry={one} /> },
  { id: "kind", header: "Kind", cell: (one) => one.entry_type.replaceAll("_", " ") },
  { id: "project", header: "Project", cell: (one) => one.project_id },
  { id: "about", header: "About", cell: (one) => [one.technology, one.task_type, one.agent_type].filter(Boolean).join(", ") || "–" },
  { id: "incident", header: "Incident", cell: (one) => one.incident || "–" },
  { id: "at", header: "Captured", cell: (one) => moment(one.timestamp) },
  {
    id: "verify",
    header: "Action",
    cell: (one) => (
      <Button variant="inline-link" ariaLabel={`Verify: ${headline(one)}`} onClick={() => verify(one)}>
        Verify
      </Button>
    ),
  },
];

function Learning({ entry }: { entry: StagingEntry }) {
  const steps = entry.solution_steps ?? [];
  return (
    <SpaceBetween size="xxs">
      <span>{headline(entry)}</span>
      {entry.error_message ? <Box variant="code">{entry.error_message}</Box> : null}
      {steps.length ? (
        <ol style={{ margin: 0, paddingInlineStart: 20 }}>
          {steps.map((step, index) => (
            <li key={index}>{step}</li>
          ))}
        </ol>
      ) : null}
      {entry.revision_approach ? <span>instead: {entry.revision_approach}</span> : null}
      {entry.remarks?.map((remark) => (
        <Box key={remark} variant="small">
          {remark}
        </Box>
      ))}
    </SpaceBetween>
  );
}

const RESULTS: { value: Result; label: string }[] = [
  { value: "worked", label: "It worked" },
  { value: "no_effect", label: "It had no effect" },
  { value: "made_worse", label: "It made things worse" },
];

function useVerify(entry: StagingEntry, done: (result: Result) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ result, incident }: { result: Result; incident: string }) =>
      data(
        api.POST("/learning/entries/{entryId}/verification", {
          params: { path: { entryId: entry.id } },
          body: { worked: result === "worked", incident, ...(result === "worked" ? {} : { effect: result }) },
        }),
      ),
    onSuccess: (_, { result }) => {
      void queries.invalidateQueries({ queryKey: ["entries"] });
      done(result);
    },
  });
}

function Verification({ entry, close }: { entry: StagingEntry; close: (recorded?: Result) => void }) {
  const [result, setResult] = useState<Result>("worked");
  const [incident, setIncident] = useTyped(entry.incident ?? "");
  const verify = useVerify(entry, close);
  return (
    <Modal
      visible
      header="Did it work?"
      closeAriaLabel="Close"
      onDismiss={() => close()}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button onClick={() => close()}>Cancel</Button>
            <Button
              variant="primary"
              loading={verify.isPending}
              onClick={() => verify.mutate({ result, incident: incident.trim() })}
            >
              Record
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="m">
        <Learning entry={entry} />
        <FormField label="Seen">
          <RadioGroup value={result} items={RESULTS} onChange={({ detail }) => setResult(detail.value as Result)} />
        </FormField>
        <FormField label="Incident" description="Its id, if there was one">
          <Input value={incident} onChange={({ detail }) => setIncident(detail.value)} />
        </FormField>
        {verify.error ? <Problem error={verify.error} /> : null}
      </SpaceBetween>
    </Modal>
  );
}
