/** Documents with parts that look wrong: suspected instructions, parts that couldn't be read, and the like. */
import Box from "@cloudscape-design/components/box";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useState } from "react";
import type { KnowledgeDocument, Remark } from "../api/schema";
import { Choice } from "./InboxGaps";
import { counted, documentLink, Paged, Refresh } from "./InboxMore";
import { useDocuments } from "./InboxQueries";

/** Masked secrets have a list of their own. */
const shown = (document: KnowledgeDocument): Remark[] => (document.remarks ?? []).filter((one) => one.kind !== "masked_secret");

const words = (kind: string): string => kind.replaceAll("_", " ");

export function InboxRemarks() {
  const documents = useDocuments(true);
  const [kind, setKind] = useState("");
  return (
    <Paged
      query={documents}
      action="Look at more documents"
      note={`Looked at ${documents.data?.pages.reduce((sum, page) => sum + page.documents.length, 0) ?? 0} documents.`}
    >
      {(pages) => {
        const flagged = pages.flatMap((page) => page.documents).filter((one) => shown(one).length);
        const kinds = [...new Set(flagged.flatMap((one) => shown(one).map((remark) => words(remark.kind))))].sort();
        const items = flagged.filter((one) => !kind || shown(one).some((remark) => words(remark.kind) === kind));
        return (
          <SpaceBetween size="l">
            <Choice label="Remark" value={kind} choices={kinds} change={setKind} />
            <Table
              wrapLines
              header={
                <Header variant="h2" counter={counted(items)} actions={<Refresh query={documents} of="documents" />}>
                  Flagged documents
                </Header>
              }
              ariaLabels={{ tableLabel: "Flagged documents" }}
              columnDefinitions={COLUMNS}
              items={items}
              trackBy="s3Location"
              empty={<Box textAlign="center">None of these documents is flagged</Box>}
            />
          </SpaceBetween>
        );
      }}
    </Paged>
  );
}

const COLUMNS: TableProps.ColumnDefinition<KnowledgeDocument>[] = [
  {
    id: "title",
    header: "Document",
    isRowHeader: true,
    minWidth: 200,
    cell: (one) => <Link href={documentLink(one.documentId)}>{one.title}</Link>,
  },
  { id: "remarks", header: "Remarks", minWidth: 260, cell: (one) => <Remarks remarks={shown(one)} /> },
  { id: "owner", header: "Owner", cell: (one) => one.owner || "nobody" },
  { id: "category", header: "Category", cell: (one) => one.category },
];

function Remarks({ remarks }: { remarks: Remark[] }) {
  return (
    <SpaceBetween size="xxs">
      {remarks.map((one, index) => (
        <div key={index}>
          <StatusIndicator type={one.kind === "suspected_instruction" ? "error" : "warning"}>{words(one.kind)}</StatusIndicator>{" "}
          {one.text}
        </div>
      ))}
    </SpaceBetween>
  );
}
