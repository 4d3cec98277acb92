/** Lists of what is not covered: alerts, runbooks and services by their references in the graph. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import type { Uncovered, UnsureAlert } from "../api/schema";
import { bare, documentOf, useNames } from "./CoverageQueries";
import { askLink, counted, documentLink, moment } from "./InboxMore";

type Column<T> = TableProps.ColumnDefinition<T>;

interface ListProps<T> {
  title: string;
  description: string;
  items: T[];
  columns: Column<T>[];
}

function List<T extends Uncovered>({ title, description, items, columns }: ListProps<T>) {
  return (
    <Table
      wrapLines
      header={
        <Header variant="h2" counter={counted(items)} description={description}>
          {title}
        </Header>
      }
      ariaLabels={{ tableLabel: title }}
      columnDefinitions={columns}
      items={items}
      trackBy="key"
      empty={<Box textAlign="center">None</Box>}
    />
  );
}

const firings = <T extends Uncovered>(): Column<T>[] => [
  { id: "firings", header: "Firings", cell: (one) => one.firings ?? 0 },
  { id: "last", header: "Last fired", cell: (one) => (one.lastFired ? moment(one.lastFired) : "never") },
];

/** An alert or a service, with the question for its runbook. */
function asked<T extends Uncovered>(header: string, names: ReadonlyMap<string, string> | undefined): Column<T> {
  const name = (one: T): string => names?.get(one.key) ?? bare(one.key);
  return {
    id: "name",
    header,
    isRowHeader: true,
    minWidth: 200,
    cell: (one) => (
      <Link href={askLink(name(one))} ariaLabel={`Ask: ${name(one)}`}>
        {name(one)}
      </Link>
    ),
  };
}

export function AlertsWithoutRunbook({ items }: { items: Uncovered[] }) {
  const names = useNames("alert").data;
  return (
    <List
      title="Alerts without a runbook"
      description="No page seems to be about them; those with most firings first."
      items={items}
      columns={[asked("Alert", names), ...firings<Uncovered>()]}
    />
  );
}

export function AlertsUnsure({ items }: { items: UnsureAlert[] }) {
  const names = useNames("alert").data;
  return (
    <List
      title="Unsure alerts"
      description="A page exists for them, but none that is certainly theirs: state the alert in the page, or the page in the rule."
      items={items}
      columns={[
        asked("Alert", names),
        ...firings<UnsureAlert>(),
        { id: "pages", header: "Pages", minWidth: 240, cell: (one) => <Pages alert={one} /> },
      ]}
    />
  );
}

function Pages({ alert }: { alert: UnsureAlert }) {
  return (
    <ul style={{ margin: 0, paddingInlineStart: 20 }}>
      {alert.pages?.map((page) => (
        <li key={page.documentId}>
          <Link href={documentLink(page.documentId)}>{page.title}</Link>
          <Box variant="small" display="block">{page.why}</Box>
        </li>
      ))}
    </ul>
  );
}

interface RunbooksProps {
  title: string;
  description: string;
  items: Uncovered[];
}

export function Runbooks({ title, description, items }: RunbooksProps) {
  const names = useNames("runbook").data;
  const columns: Column<Uncovered>[] = [
    {
      id: "title",
      header: "Runbook",
      isRowHeader: true,
      minWidth: 220,
      cell: (one) => <RunbookLink reference={one.key} title={names?.get(one.key) ?? bare(one.key)} />,
    },
    { id: "name", header: "Name", cell: (one) => bare(one.key) },
  ];
  return <List title={title} description={description} items={items} columns={columns} />;
}

/** Opens the document of a runbook, which is looked up in the graph then. */
function RunbookLink({ reference, title }: { reference: string; title: string }) {
  const navigate = useNavigate();
  const open = useMutation({
    mutationFn: () => documentOf(reference),
    onSuccess: (documentId) => {
      if (documentId) void navigate(`/documents/${documentId}`);
    },
  });
  return (
    <>
      <Button variant="inline-link" loading={open.isPending} ariaLabel={`Open ${title}`} onClick={() => open.mutate()}>
        {title}
      </Button>
      {open.error ? <StatusIndicator type="error">{open.error.message}</StatusIndicator> : null}
      {open.isSuccess && !open.data ? <StatusIndicator type="info">no document of yours is this runbook</StatusIndicator> : null}
    </>
  );
}

export function ServicesWithoutRunbook({ items }: { items: Uncovered[] }) {
  const names = useNames("service").data;
  return (
    <List
      title="Services without a runbook"
      description="No runbook is about them."
      items={items}
      columns={[asked("Service", names), { id: "reference", header: "Reference", cell: (one) => one.key }]}
    />
  );
}
