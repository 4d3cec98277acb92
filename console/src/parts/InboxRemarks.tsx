/** Documents with parts that look wrong: suspected instructions, parts that couldn't be read, and the like. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Checkbox from "@cloudscape-design/components/checkbox";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useState } from "react";
import type { KnowledgeDocument, Remark } from "../api/schema";
import { Confirm } from "./Confirm";
import { useDelete } from "./DocumentChanges";
import { Choice } from "./InboxGaps";
import { counted, documentLink, Paged, Refresh } from "./InboxMore";
import { useDocuments } from "./InboxQueries";
import { ReviewDialog } from "./ReviewDialog";

/** Masked secrets have a list of their own. */
const shown = (document: KnowledgeDocument): Remark[] => (document.remarks ?? []).filter((one) => one.kind !== "masked_secret");

const words = (kind: string): string => kind.replaceAll("_", " ");

export function InboxRemarks() {
  const documents = useDocuments(true);
  const [kind, setKind] = useState("");
  const [isAll, setIsAll] = useState(false);
  const [chosen, setChosen] = useState<Chosen>();
  const dialog = chosen ? <Judgement {...chosen} onClose={() => setChosen(undefined)} /> : null;
  return (
    <>
      <Paged
        query={documents}
        action="Look at more documents"
        note={`Looked at ${documents.data?.pages.reduce((sum, page) => sum + page.documents.length, 0) ?? 0} documents.`}
      >
        {(pages) => {
          const flagged = pages.flatMap((page) => page.documents).filter((one) => shown(one).length && (isAll || !one.reviewedAt));
          const kinds = [...new Set(flagged.flatMap((one) => shown(one).map((remark) => words(remark.kind))))].sort();
          const items = flagged.filter((one) => !kind || shown(one).some((remark) => words(remark.kind) === kind));
          return (
            <SpaceBetween size="l">
              <SpaceBetween size="m" direction="horizontal" alignItems="end">
                <Choice label="Remark" value={kind} choices={kinds} change={setKind} />
                <Checkbox checked={isAll} onChange={({ detail }) => setIsAll(detail.checked)}>
                  Also approved ones
                </Checkbox>
              </SpaceBetween>
              <Table
                wrapLines
                header={
                  <Header
                    variant="h2"
                    counter={counted(items)}
                    description="Approve what holds as it is, or reject it: it is deleted, and its versions stay readable."
                    actions={<Refresh query={documents} of="documents" />}
                  >
                    Flagged documents
                  </Header>
                }
                ariaLabels={{ tableLabel: "Flagged documents" }}
                columnDefinitions={columns(setChosen)}
                items={items}
                trackBy="s3Location"
                empty={<Box textAlign="center">None of these documents is flagged</Box>}
              />
            </SpaceBetween>
          );
        }}
      </Paged>
      {dialog}
    </>
  );
}

interface Chosen {
  document: KnowledgeDocument;
  isApproved: boolean;
}

/** To approve is to state by a review that the present text holds: another text is flagged again. */
function Judgement({ document, isApproved, onClose }: Chosen & { onClose: () => void }) {
  const remove = useDelete(document.documentId);
  if (isApproved) return <ReviewDialog documentId={document.documentId} title={document.title} onClose={onClose} />;
  return (
    <Confirm
      header="Reject this document?"
      action="Reject and delete"
      isBusy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate(undefined, { onSuccess: onClose })}
      onDismiss={onClose}
    >
      <div>“{document.title}” is deleted: it will no longer be found. Its versions stay readable, and can be restored.</div>
    </Confirm>
  );
}

const columns = (choose: (chosen: Chosen) => void): TableProps.ColumnDefinition<KnowledgeDocument>[] => [
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
  {
    id: "judge",
    header: "Action",
    minWidth: 150,
    cell: (document) => (
      <SpaceBetween size="xs" direction="horizontal">
        <Button
          variant="inline-link"
          ariaLabel={`Approve: ${document.title}`}
          onClick={() => choose({ document, isApproved: true })}
        >
          Approve
        </Button>
        <Button
          variant="inline-link"
          ariaLabel={`Reject: ${document.title}`}
          onClick={() => choose({ document, isApproved: false })}
        >
          Reject
        </Button>
      </SpaceBetween>
    ),
  },
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
