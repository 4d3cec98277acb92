/** Entries that were captured from work: which wait for verification, which are ready for a checkpoint. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Link from "@cloudscape-design/components/link";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { EntryState, StagingEntry } from "../api/schema";
import { Problem } from "./Failed";
import { LearningCheckpoint } from "./LearningCheckpoint";
import { TYPES } from "./LearningTerms";
import { LearningVerify } from "./LearningVerify";

const STATES = [
  { value: "", label: "Any state" },
  { value: "waiting", label: "Waiting for verification" },
  { value: "ready", label: "Ready for a checkpoint" },
  { value: "taken_in", label: "Learned from" },
] as const;
type StateChoice = (typeof STATES)[number]["value"];

const MARKS: Record<EntryState, StatusIndicatorProps.Type> = { waiting: "pending", ready: "info", taken_in: "success" };

const PAGE = 50;

export function LearningEntries() {
  const [state, setState] = useState<StateChoice>("");
  const [project, setProject] = useState("");
  const [verified, setVerified] = useState<StagingEntry | null>(null);
  const entries = useInfiniteQuery({
    queryKey: ["learning", "entries", state, project],
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/learning/entries", {
          params: {
            query: {
              limit: PAGE,
              ...(state ? { state } : {}),
              ...(project ? { projectId: project } : {}),
              ...(pageParam ? { after: pageParam } : {}),
            },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next || undefined,
  });
  return (
    <SpaceBetween size="m">
      <LearningCheckpoint />
      <Filter state={state} onState={setState} onProject={setProject} />
      {entries.error ? <Problem error={entries.error} again={() => void entries.refetch()} /> : null}
      {entries.isPending && !entries.error ? <Spinner size="large" /> : null}
      {entries.data ? (
        <Listed
          entries={entries.data.pages.flatMap((page) => page.entries)}
          hasMore={entries.hasNextPage}
          isBusy={entries.isFetchingNextPage}
          onMore={() => void entries.fetchNextPage()}
          onVerify={setVerified}
        />
      ) : null}
      {verified ? <LearningVerify entry={verified} onDismiss={() => setVerified(null)} /> : null}
    </SpaceBetween>
  );
}

interface FilterProps {
  state: StateChoice;
  onState: (state: StateChoice) => void;
  onProject: (project: string) => void;
}

function Filter({ state, onState, onProject }: FilterProps) {
  const [project, setProject] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onProject(project.trim());
      }}
    >
      <SpaceBetween size="s" direction="horizontal" alignItems="end">
        <FormField label="State">
          <Select
            options={STATES}
            selectedOption={STATES.find((one) => one.value === state) ?? null}
            onChange={({ detail }) => onState(STATES.find((one) => one.value === detail.selectedOption.value)?.value ?? "")}
          />
        </FormField>
        <FormField label="Project" description="Empty for all">
          <Input value={project} onChange={({ detail }) => setProject(detail.value)} />
        </FormField>
        <Button formAction="submit">Show</Button>
      </SpaceBetween>
    </form>
  );
}

interface ListedProps {
  entries: StagingEntry[];
  hasMore: boolean;
  isBusy: boolean;
  onMore: () => void;
  onVerify: (entry: StagingEntry) => void;
}

function Listed({ entries, hasMore, isBusy, onMore, onVerify }: ListedProps) {
  return (
    <Table
      items={entries}
      trackBy="id"
      wrapLines
      ariaLabels={{ tableLabel: "Captured entries" }}
      header={
        <Header variant="h2" counter={`(${entries.length}${hasMore ? ", and more" : ""})`}>
          Captured entries
        </Header>
      }
      empty="Nothing was captured"
      footer={
        hasMore ? (
          <Button loading={isBusy} onClick={onMore}>
            Load more
          </Button>
        ) : null
      }
      columnDefinitions={[
        { id: "entry", header: "Entry", isRowHeader: true, minWidth: 200, cell: (one) => <Text entry={one} /> },
        { id: "type", header: "Type", cell: (one) => TYPES[one.entry_type] },
        {
          id: "state",
          header: "State",
          minWidth: 150,
          cell: (one) => (
            <StatusIndicator type={MARKS[one.state]}>{STATES.find(({ value }) => value === one.state)?.label}</StatusIndicator>
          ),
        },
        { id: "verified", header: "Verified", minWidth: 150, cell: (one) => <Verified entry={one} /> },
        { id: "project", header: "Project", cell: (one) => one.project_id },
        { id: "when", header: "Captured", minWidth: 130, cell: (one) => one.timestamp.slice(0, 16).replace("T", " ") },
        {
          id: "verify",
          header: "Verify",
          cell: (one) =>
            one.success_verified === null ? (
              <Button ariaLabel={`Verify the entry: ${titleOf(one)}`} onClick={() => onVerify(one)}>
                Verify
              </Button>
            ) : null,
        },
      ]}
    />
  );
}

export const titleOf = (entry: StagingEntry): string =>
  entry.failure_description || entry.human_feedback || entry.approved_approach || entry.error_message || entry.id;

function Text({ entry }: { entry: StagingEntry }) {
  return (
    <div>
      {titleOf(entry)}
      {entry.solution_steps?.length ? (
        <ol>
          {entry.solution_steps.map((step, index) => (
            <li key={index}>{step}</li>
          ))}
        </ol>
      ) : null}
      {entry.revision_approach ? <Box>{entry.revision_approach}</Box> : null}
      {entry.error_message ? <pre className="opx-lines">{entry.error_message}</pre> : null}
      <div>
        <Box variant="small">{[entry.technology, entry.task_type, entry.agent_type, entry.gate_type].filter(Boolean).join(", ")}</Box>
      </div>
      {entry.remarks?.map((remark) => (
        <StatusIndicator key={remark} type="warning">
          {remark}
        </StatusIndicator>
      ))}
      {entry.pattern_id ? <Link href={`#/learning?pattern=${entry.pattern_id}`}>Its pattern</Link> : null}
    </div>
  );
}

function Verified({ entry }: { entry: StagingEntry }) {
  const effect = entry.effect ? ` (${entry.effect.replaceAll("_", " ")})` : "";
  const incident = entry.incident ? ` in ${entry.incident}` : "";
  if (entry.success_verified === null) return <StatusIndicator type="pending">not yet</StatusIndicator>;
  return (
    <StatusIndicator type={entry.success_verified ? "success" : "error"}>
      {entry.success_verified ? "worked" : `did not work${effect}`}
      {incident}
    </StatusIndicator>
  );
}
