/** The versions of a document: open one, restore one, compare two. */
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useState } from "react";
import type { KnowledgeDocument } from "../api/schema";
import { type RestoredState, useRestore } from "./DocumentChanges";
import { DocumentCompare } from "./DocumentCompare";
import { Confirm } from "./Confirm";
import { minute, StateMark } from "./DocumentMarks";
import { DocumentPaged } from "./DocumentPaged";
import { useVersions } from "./DocumentQueries";

interface Props {
  document: KnowledgeDocument;
  newest: KnowledgeDocument;
}

export function DocumentVersionList({ document, newest }: Props) {
  const query = useVersions(document.documentId, `${newest.version} ${newest.state}`);
  const restore = useRestore(document.documentId);
  const [asked, setAsked] = useState<number>();
  return (
    <SpaceBetween size="l">
      {restore.data ? <Done restored={restore.data} /> : null}
      <DocumentPaged query={query}>
        {(pages) => {
          const versions = pages.flatMap((page) => page.versions);
          return (
            <SpaceBetween size="l">
              <VersionTable versions={versions} restore={setAsked} />
              <DocumentCompare documentId={document.documentId} versions={versions} />
            </SpaceBetween>
          );
        }}
      </DocumentPaged>
      {asked === undefined ? null : (
        <Confirm
          header={`Restore version ${asked}?`}
          action="Restore"
          isBusy={restore.isPending}
          error={restore.error}
          onConfirm={() => restore.mutate(asked, { onSuccess: () => setAsked(undefined) })}
          onDismiss={() => {
            restore.reset();
            setAsked(undefined);
          }}
        >
          <div>
            Its text becomes a new version, which replaces the current one. All versions are kept.
          </div>
        </Confirm>
      )}
    </SpaceBetween>
  );
}

function Done({ restored }: { restored: RestoredState }) {
  const { state, restored: from, notes } = restored;
  if (state.state === "failed") {
    return <Alert type="error" header={`Version ${from.version} couldn't be ingested again`}>{state.reason}</Alert>;
  }
  if (state.state === "waiting") {
    return <Alert type="info">Version {from.version} waits to be ingested as a new version.</Alert>;
  }
  return (
    <Alert type="success" header={`Version ${from.version} is restored`}>
      <Link href={`#/documents/${state.documentId}`}>Open the new version</Link>
      {restored.original ? null : <div>The original file is gone: this is its extracted text.</div>}
      {notes?.map((note) => <div key={note}>{note}</div>)}
    </Alert>
  );
}

function VersionTable({ versions, restore }: { versions: KnowledgeDocument[]; restore: (version: number) => void }) {
  const columns: TableProps.ColumnDefinition<KnowledgeDocument>[] = [
    {
      id: "version",
      header: "Version",
      minWidth: 110,
      isRowHeader: true,
      cell: (one) => <Link href={`#/documents/${one.documentId}`}>{`Version ${one.version}`}</Link>,
    },
    { id: "state", header: "State", minWidth: 140, cell: (one) => <StateMark state={one.state ?? "current"} /> },
    { id: "since", header: "Current since", minWidth: 170, cell: (one) => minute(one.currentSince) },
    { id: "until", header: "Until", minWidth: 170, cell: (one) => minute(one.supersededAt) },
    { id: "author", header: "Author", cell: (one) => one.metadata.author || "–" },
    {
      id: "restore",
      header: "Restore",
      minWidth: 120,
      cell: (one) =>
        one.state === "current" ? null : (
          <Button ariaLabel={`Restore version ${one.version}`} onClick={() => restore(one.version ?? 1)}>
            Restore
          </Button>
        ),
    },
  ];
  return (
    <Table
      variant="embedded"
      wrapLines
      header={<Header variant="h2">Versions</Header>}
      columnDefinitions={columns}
      items={versions}
      trackBy={(one) => String(one.version)}
      ariaLabels={{ tableLabel: "Versions" }}
    />
  );
}
