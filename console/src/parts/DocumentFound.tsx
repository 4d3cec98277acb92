/** Answers that returned a document: who got them, and when. */
import Box from "@cloudscape-design/components/box";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { AuditRecord } from "../api/schema";
import { minute } from "./DocumentMarks";
import { documentKey } from "./DocumentQueries";
import { Loaded } from "./Loaded";

const MOST = 100;

export function DocumentFound({ documentId }: { documentId: string }) {
  const query = useQuery({
    queryKey: [...documentKey(documentId), "found"],
    queryFn: () => data(api.GET("/audit", { params: { query: { documentId, limit: MOST } } })),
  });
  return <Loaded query={query}>{({ records }) => <Records documentId={documentId} records={records} />}</Loaded>;
}

function Records({ documentId, records }: { documentId: string; records: AuditRecord[] }) {
  const confidence = (record: AuditRecord): string =>
    record.documents.find((one) => one.documentId === documentId)?.confidence.toFixed(2) ?? "–";
  const columns: TableProps.ColumnDefinition<AuditRecord>[] = [
    {
      id: "when",
      header: "When",
      minWidth: 170,
      isRowHeader: true,
      cell: (one) => <Link href={`#/answers/${one.receiptId}`}>{minute(one.askedAt)}</Link>,
    },
    { id: "principal", header: "Who", cell: (one) => one.principal || "unknown" },
    { id: "scope", header: "Scope", cell: (one) => one.who },
    { id: "mode", header: "Mode", cell: (one) => one.mode },
    { id: "confidence", header: "Confidence", cell: confidence },
    { id: "results", header: "Results in all", cell: (one) => one.documentsInAll },
  ];
  return (
    <Table
      variant="embedded"
      wrapLines
      header={
        <Header variant="h2" counter={`(${records.length}${records.length === MOST ? "+" : ""})`}>
          Answers with this document
        </Header>
      }
      columnDefinitions={columns}
      items={records}
      trackBy="receiptId"
      empty={<Box>No recorded answer has it.</Box>}
      ariaLabels={{ tableLabel: "Answers with this document" }}
    />
  );
}
