/** Uploaded files with their fates. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import Pagination from "@cloudscape-design/components/pagination";
import ProgressBar from "@cloudscape-design/components/progress-bar";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useState } from "react";
import { type Fate, isOpen, type Upload, uploads as queue } from "./UploadQueue";

const PAGE = 50;
const MARKS: Record<Fate, [StatusIndicatorProps.Type, string]> = {
  queued: ["pending", "queued"],
  reading: ["loading", "computing its checksum"],
  sending: ["loading", "sending"],
  accepted: ["in-progress", "accepted"],
  waiting: ["in-progress", "waiting for ingestion"],
  ingested: ["success", "ingested"],
  unchanged: ["success", "unchanged: it is stored already"],
  "left out": ["stopped", "left out"],
  failed: ["error", "failed"],
};
const COLUMNS: TableProps.ColumnDefinition<Upload>[] = [
  { id: "source", header: "File", isRowHeader: true, minWidth: 180, cell: (one) => one.source },
  { id: "size", header: "Size", minWidth: 90, cell: (one) => bytes(one.file.size) },
  { id: "fate", header: "Fate", minWidth: 220, cell: (one) => <FateOf upload={one} /> },
  { id: "document", header: "Document", minWidth: 140, cell: (one) => <Result upload={one} /> },
];

export function UploadList({ uploads }: { uploads: readonly Upload[] }) {
  const [page, setPage] = useState(1);
  const pages = Math.max(1, Math.ceil(uploads.length / PAGE));
  const at = Math.min(page, pages);
  const open = uploads.filter(isOpen).length;
  const failed = uploads.filter(({ fate }) => fate === "failed").length;
  return (
    <Table
      variant="embedded"
      wrapLines
      columnDefinitions={COLUMNS}
      items={uploads.slice((at - 1) * PAGE, at * PAGE)}
      trackBy={({ id }) => String(id)}
      ariaLabels={{ tableLabel: "Uploads" }}
      pagination={
        pages > 1 ? (
          <Pagination
            currentPageIndex={at}
            pagesCount={pages}
            onChange={({ detail }) => setPage(detail.currentPageIndex)}
            ariaLabels={{ nextPageLabel: "Next page", previousPageLabel: "Previous page", pageLabel: (n) => `Page ${n}` }}
          />
        ) : undefined
      }
      header={
        <Header
          variant="h3"
          counter={`(${uploads.length})`}
          description={
            <span role="status">
              {uploads.length - open} done, {open} open, {failed} failed
            </span>
          }
          actions={
            <Button disabled={open === uploads.length} onClick={() => queue.clear()}>
              Clear those that are done
            </Button>
          }
        >
          Uploads
        </Header>
      }
    />
  );
}

function FateOf({ upload }: { upload: Upload }) {
  const [type, text] = MARKS[upload.fate];
  if (upload.fate === "sending" && upload.sent < 1) {
    return <ProgressBar value={Math.round(100 * upload.sent)} ariaLabel={`Sending ${upload.source}`} />;
  }
  return (
    <SpaceBetween size="xxs">
      <StatusIndicator type={type}>{text}</StatusIndicator>
      {upload.reason ? <Box variant="small">{upload.reason}</Box> : null}
    </SpaceBetween>
  );
}

function Result({ upload }: { upload: Upload }) {
  if (upload.fate === "failed") {
    return (
      <Button ariaLabel={`Try again: ${upload.source}`} onClick={() => queue.retry([upload.id])}>
        Try again
      </Button>
    );
  }
  return upload.documentId ? (
    <Link href={`#/documents/${upload.documentId}`}>{upload.title || "Open the document"}</Link>
  ) : null;
}

function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  return size < 1024 ** 2 ? `${(size / 1024).toFixed(1)} kB` : `${(size / 1024 ** 2).toFixed(1)} MB`;
}
