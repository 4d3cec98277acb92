/** The audit log: who asked, when, and which documents were returned. */
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { AuditRecord } from "../api/schema";
import { HealthDocuments } from "./HealthDocuments";
import { Loaded } from "./Loaded";

const FEW = 100;
const MOST = 1000;
/** Records that the API gives at most. */

export interface AuditFilter {
  who: string;
  since: string;
  documentId: string;
}

interface Props {
  filter: AuditFilter;
  onFilter: (filter: AuditFilter) => void;
}

export function HealthAudit({ filter, onFilter }: Props) {
  const [limit, setLimit] = useState(FEW);
  const audit = useQuery({
    queryKey: ["audit", filter, limit],
    queryFn: () => data(api.GET("/audit", { params: { query: { ...filter, limit } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <SpaceBetween size="m">
      <Filter filter={filter} onFilter={onFilter} />
      <Loaded query={audit}>
        {({ records }) => (
          <Records
            records={records}
            isBusy={audit.isFetching}
            isFull={records.length >= limit}
            onMore={limit < MOST ? () => setLimit(MOST) : undefined}
          />
        )}
      </Loaded>
    </SpaceBetween>
  );
}

function Filter({ filter, onFilter }: Props) {
  const [who, setWho] = useState(filter.who);
  const [since, setSince] = useState(filter.since);
  const [documentId, setDocumentId] = useState(filter.documentId);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onFilter({ who: who.trim(), since: since.trim(), documentId: documentId.trim() });
      }}
    >
      <SpaceBetween size="s" direction="horizontal" alignItems="end">
        <FormField label="Who" description="A part of a scope's or a caller's name">
          <Input value={who} onChange={({ detail }) => setWho(detail.value)} />
        </FormField>
        <FormField label="Since" description="A day, or a time">
          <Input value={since} placeholder="2026-03-31" onChange={({ detail }) => setSince(detail.value)} />
        </FormField>
        <FormField label="Document" description="The beginning of its id">
          <Input value={documentId} onChange={({ detail }) => setDocumentId(detail.value)} />
        </FormField>
        <Button formAction="submit">Show</Button>
      </SpaceBetween>
    </form>
  );
}

interface RecordsProps {
  records: AuditRecord[];
  isBusy: boolean;
  isFull: boolean;
  onMore?: () => void;
}

function Records({ records, isBusy, isFull, onMore }: RecordsProps) {
  return (
    <Table
      items={records}
      trackBy="receiptId"
      wrapLines
      ariaLabels={{ tableLabel: "Questions asked" }}
      header={
        <Header
          variant="h2"
          counter={`(${records.length}${isFull ? ", there may be more" : ""})`}
          description="The text of a question is not kept, only its keyed hash: equal questions have the same."
        >
          Questions asked
        </Header>
      }
      empty="No record matches, or no audit log is kept"
      footer={
        isFull && onMore ? (
          <Button loading={isBusy} onClick={onMore}>
            Load more
          </Button>
        ) : null
      }
      columnDefinitions={[
        { id: "at", header: "When", isRowHeader: true, minWidth: 130, cell: (one) => one.askedAt.slice(0, 19).replace("T", " ") },
        { id: "who", header: "Who", cell: (one) => `${one.principal || "unknown"} (${one.who})` },
        { id: "question", header: "Question", cell: (one) => one.queryHash.slice(0, 12) },
        { id: "documents", header: "Documents", minWidth: 220, cell: (one) => <Returned record={one} /> },
        {
          id: "mode",
          header: "Mode",
          cell: (one) => (one.partial ? <StatusIndicator type="warning">{one.mode}, partial</StatusIndicator> : one.mode),
        },
        { id: "took", header: "Took", minWidth: 90, cell: (one) => `${Math.round(one.tookMs)} ms` },
        {
          id: "receipt",
          header: "Receipt",
          cell: (one) => (
            <span style={{ overflowWrap: "anywhere" }}>
              <Link href={`#/answers/${one.receiptId}`}>{one.receiptId}</Link>
            </span>
          ),
        },
      ]}
    />
  );
}

function Returned({ record }: { record: AuditRecord }) {
  if (record.documents.length) return <HealthDocuments record={record} />;
  if (!record.nearest) return "none";
  return (
    <>
      none; the nearest was <Link href={`#/documents/${record.nearest}`}>{record.nearest.slice(0, 12)}</Link>
    </>
  );
}
