/** Questions without a good answer: a page is near, but not surely right (unsure), or there is none (missing). */
import Box from "@cloudscape-design/components/box";
import Checkbox from "@cloudscape-design/components/checkbox";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useState } from "react";
import type { GapView } from "../api/schema";
import { type GapAction, GapActions, GapDialog } from "./InboxGapActions";
import { askLink, counted, day, documentLink, Refresh } from "./InboxMore";
import { type GapFilter, NO_FILTER, useGaps } from "./InboxQueries";
import { Loaded } from "./Loaded";

const NOBODY = "nobody";

const isMissing = (gap: GapView): boolean => Boolean(gap.absent) || !gap.nearestId;

export function InboxGaps() {
  const [filter, setFilter] = useState<GapFilter>(NO_FILTER);
  const gaps = useGaps(filter);
  const [chosen, setChosen] = useState<{ gap: GapView; action: GapAction }>();
  const columns = [...COLUMNS, actionColumn((gap, action) => setChosen({ gap, action }))];
  return (
    <SpaceBetween size="l">
      <Filters filter={filter} change={setFilter} />
      <Loaded query={gaps}>
        {({ gaps: found, more, dropped }) => (
          <SpaceBetween size="l">
            {more ? <StatusIndicator type="info">There are more gaps: filter by owner or service.</StatusIndicator> : null}
            {dropped ? <Box variant="small" display="block">{dropped} gaps of less weight were dropped for others.</Box> : null}
            <Gaps
              title="Unsure"
              description="A page is near, but hardly the right one: improve it, or write one."
              columns={columns}
              gaps={found.filter((gap) => !isMissing(gap))}
              action={<Refresh query={gaps} of="gaps" />}
            />
            <Gaps
              title="Missing"
              description="No page is about it: write one."
              columns={columns}
              gaps={found.filter(isMissing)}
            />
          </SpaceBetween>
        )}
      </Loaded>
      {chosen ? <GapDialog {...chosen} close={() => setChosen(undefined)} /> : null}
    </SpaceBetween>
  );
}

/** Choices come from the gaps without a filter. */
function Filters({ filter, change }: { filter: GapFilter; change: (filter: GapFilter) => void }) {
  const all = useGaps({ ...NO_FILTER, settled: filter.settled }).data?.gaps ?? [];
  const owners = [...new Set(all.map((gap) => gap.owner || NOBODY))].sort();
  const services = [...new Set(all.flatMap((gap) => gap.services))].sort();
  return (
    <SpaceBetween size="m" direction="horizontal" alignItems="end">
      <Choice label="Owner" value={filter.owner} choices={owners} change={(owner) => change({ ...filter, owner })} />
      <Choice label="Service" value={filter.service} choices={services} change={(service) => change({ ...filter, service })} />
      <Checkbox checked={filter.settled} onChange={({ detail }) => change({ ...filter, settled: detail.checked })}>
        Also closed and ignored
      </Checkbox>
    </SpaceBetween>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  choices: string[];
  change: (value: string) => void;
}

/** Selects one value, or any. */
export function Choice({ label, value, choices, change }: ChoiceProps) {
  const any = { value: "", label: "any" };
  const options = [any, ...choices.map((one) => ({ value: one, label: one }))];
  return (
    <FormField label={label}>
      <Select
        selectedOption={options.find((one) => one.value === value) ?? { value, label: value }}
        options={options}
        filteringType={choices.length > 10 ? "auto" : "none"}
        filteringAriaLabel={`Find ${label.toLowerCase()}`}
        expandToViewport
        onChange={({ detail }) => change(detail.selectedOption.value ?? "")}
      />
    </FormField>
  );
}

function headline(gap: GapView): string {
  return gap.absent ? `no page for ${gap.absent.kind} ${gap.absent.name}` : gap.question;
}

const COLUMNS: TableProps.ColumnDefinition<GapView>[] = [
  {
    id: "question",
    header: "Question",
    isRowHeader: true,
    minWidth: 240,
    cell: (gap) => <Question gap={gap} />,
  },
  {
    id: "asked",
    header: "Asked",
    minWidth: 150,
    cell: (gap) => `${gap.count} × by ${gap.callers}, last ${day(gap.lastAskedAt)}`,
  },
  { id: "owner", header: "Owner", cell: (gap) => gap.owner || NOBODY },
  { id: "services", header: "Services", cell: (gap) => gap.services.join(", ") || "–" },
  { id: "nearest", header: "Nearest page", minWidth: 200, cell: (gap) => <Nearest gap={gap} /> },
];

const actionColumn = (choose: (gap: GapView, action: GapAction) => void): TableProps.ColumnDefinition<GapView> => ({
  id: "actions",
  header: "Action",
  minWidth: 220,
  cell: (gap) => (
    <SpaceBetween size="xs" direction="horizontal" alignItems="center">
      <Link href={`#/inbox?draft=${encodeURIComponent(gap.gapId)}`} ariaLabel={`Write a draft: ${gap.question}`}>
        Write a draft
      </Link>
      <Link href={askLink(gap.examples[0] ?? gap.question)} ariaLabel={`Ask again: ${gap.question}`}>
        Ask again
      </Link>
      <GapActions gap={gap} choose={(action) => choose(gap, action)} />
    </SpaceBetween>
  ),
});

interface GapsProps {
  title: string;
  description: string;
  columns: TableProps.ColumnDefinition<GapView>[];
  gaps: GapView[];
  action?: React.ReactNode;
}

function Gaps({ title, description, columns, gaps, action }: GapsProps) {
  return (
    <Table
      variant="container"
      wrapLines
      header={
        <Header variant="h2" counter={counted(gaps)} description={description} actions={action}>
          {title}
        </Header>
      }
      ariaLabels={{ tableLabel: `Gaps: ${title}` }}
      columnDefinitions={columns}
      items={gaps}
      trackBy="gapId"
      empty={<Box textAlign="center">None</Box>}
    />
  );
}

function Question({ gap }: { gap: GapView }) {
  const others = gap.absent ? gap.examples : gap.examples.slice(1);
  return (
    <SpaceBetween size="xxs">
      <span>{headline(gap)}</span>
      {others.map((text) => (
        <Box key={text} variant="small">
          {gap.absent ? "asked" : "also"}: {text}
        </Box>
      ))}
      {gap.missing.map((text) => (
        <Box key={text} variant="small">
          missing: {text}
        </Box>
      ))}
      {gap.status === "open" ? null : (
        <StatusIndicator type={gap.status === "closed" ? "success" : "stopped"}>
          {gap.status}
          {gap.settledBy ? ` by ${gap.settledBy}` : ""}
          {gap.because ? `: ${gap.because}` : ""}{" "}
          {gap.closedBy ? <Link href={documentLink(gap.closedBy)}>{gap.closedByTitle}</Link> : null}
        </StatusIndicator>
      )}
    </SpaceBetween>
  );
}

function Nearest({ gap }: { gap: GapView }) {
  const { absent } = gap;
  if (absent) {
    if (!absent.nearest) return <>–</>;
    return absent.documentId ? <Link href={documentLink(absent.documentId)}>{absent.nearest}</Link> : <>{absent.nearest}</>;
  }
  if (!gap.nearestId) return <>–</>;
  return (
    <>
      <Link href={documentLink(gap.nearestId)}>{gap.nearestTitle || gap.nearestId}</Link> ({gap.nearestConfidence.toFixed(2)})
    </>
  );
}
