/** Sources with the state of their pulls, and errors with what to do about them. */
import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import type { ReactNode } from "react";
import type { SourceView } from "../api/schema";
import { counted, moment } from "./InboxMore";

interface Props {
  sources: SourceView[];
  buttons: ReactNode;
  actions: (source: SourceView) => ReactNode;
}

export function SourceTable({ sources, buttons, actions }: Props) {
  return (
    <Table
      wrapLines
      header={
        <Header variant="h2" counter={counted(sources)} actions={buttons}>
          Sources
        </Header>
      }
      ariaLabels={{ tableLabel: "Sources" }}
      columnDefinitions={[...COLUMNS, { id: "actions", header: "Actions", minWidth: 165, cell: actions }]}
      items={sources}
      trackBy="sourceId"
      empty={<Box textAlign="center">No sources</Box>}
    />
  );
}

const COLUMNS: TableProps.ColumnDefinition<SourceView>[] = [
  { id: "source", header: "Source", isRowHeader: true, minWidth: 150, cell: (one) => <Name source={one} /> },
  { id: "state", header: "State", minWidth: 220, cell: (one) => <State source={one} /> },
  { id: "schedule", header: "Schedule", minWidth: 110, cell: (one) => <Schedule source={one} /> },
  { id: "last", header: "Last pull", minWidth: 130, cell: (one) => <Last source={one} /> },
  { id: "next", header: "Next pull", minWidth: 130, cell: (one) => (one.nextPull ? moment(one.nextPull) : "–") },
  { id: "counts", header: "Documents of the last pull", minWidth: 150, cell: (one) => <Counts source={one} /> },
];

function Name({ source }: { source: SourceView }) {
  return (
    <SpaceBetween size="xxs">
      <strong>{source.sourceId}</strong>
      <Box variant="small" display="block">{`${source.kind} into ${source.category}`}</Box>
      {source.declared ? <Badge>knowledge.yaml</Badge> : null}
    </SpaceBetween>
  );
}

function State({ source }: { source: SourceView }) {
  const { state } = source;
  return (
    <SpaceBetween size="xxs">
      <Standing source={source} />
      {state.flag ? <StatusIndicator type="warning">{state.flag}</StatusIndicator> : null}
      {state.refused ? (
        <ExpandableSection headerText={`${state.refused} documents refused`}>
          <ul style={{ margin: 0, paddingInlineStart: 20 }}>
            {state.refusals.map((one) => (
              <li key={one.key} style={{ overflowWrap: "anywhere" }}>
                {one.key}: {one.reason}
              </li>
            ))}
          </ul>
        </ExpandableSection>
      ) : null}
    </SpaceBetween>
  );
}

function Standing({ source: { state, enabled, freshness } }: { source: SourceView }) {
  if (state.pulling) {
    return <StatusIndicator type="in-progress">{`pulling: ${state.put} put, ${state.unchanged} unchanged so far`}</StatusIndicator>;
  }
  if (state.error) {
    return (
      <StatusIndicator type="error">
        {state.error}
        {state.failures > 1 ? ` (failed ${state.failures} times in a row)` : ""}
      </StatusIndicator>
    );
  }
  if (!enabled) return <StatusIndicator type="stopped">paused: pulled on request only</StatusIndicator>;
  if (state.unfinished) return <StatusIndicator type="pending">interrupted: the next pull resumes it</StatusIndicator>;
  if (!state.lastSuccess) return <StatusIndicator type="pending">never pulled</StatusIndicator>;
  if (freshness === "overdue") return <StatusIndicator type="warning">overdue: a scheduled pull is missing</StatusIndicator>;
  return <StatusIndicator>{freshness === "fresh" ? "fresh" : "pulled"}</StatusIndicator>;
}

function Schedule({ source }: { source: SourceView }) {
  if (!source.schedule) return <>on request</>;
  return (
    <>
      <Box variant="code">{source.schedule}</Box>
      <Box variant="small" display="block">{source.timeZone}</Box>
    </>
  );
}

function Last({ source: { state } }: { source: SourceView }) {
  if (!state.lastAttempt) return <>never</>;
  if (state.lastSuccess >= state.lastAttempt) return <>{moment(state.lastSuccess)}</>;
  return (
    <>
      {moment(state.lastAttempt)}
      <Box variant="small" display="block">{state.lastSuccess ? `last success ${moment(state.lastSuccess)}` : "never succeeded"}</Box>
    </>
  );
}

function Counts({ source: { state } }: { source: SourceView }) {
  if (!state.lastAttempt) return <>–</>;
  return (
    <>
      {`${state.added} added, ${state.put - state.added} changed, ${state.withdrawn} withdrawn, ${state.unchanged} unchanged`}
      {state.keptOutInAll ? <Box variant="small" display="block">{`${state.keptOutInAll} kept out by the retention ${state.keptOutBy}`}</Box> : null}
    </>
  );
}
