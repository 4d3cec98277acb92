/** The result of a trial: documents that a source has, before it is registered. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import type { TrialDocument, SourceTrial as Trial } from "../api/schema";
import { counted, moment } from "./InboxMore";

export function SourceTrial({ trial }: { trial: Trial }) {
  const documents = trial.documents ?? [];
  return (
    <SpaceBetween size="s">
      {trial.ok ? null : (
        <Alert type="error" header="It can’t be pulled">
          {trial.reason}
        </Alert>
      )}
      {trial.ok && trial.timedOut ? (
        <Alert type="info">{`It answers, and gave ${documents.length} documents within the time of a trial; a pull takes longer.`}</Alert>
      ) : null}
      {trial.ok && !trial.timedOut && !documents.length ? <Alert type="warning">It answers, and has no documents.</Alert> : null}
      {documents.length ? (
        <Table
          variant="embedded"
          wrapLines
          header={<Box variant="h3">{`First documents ${counted(documents)}; nothing is stored`}</Box>}
          ariaLabels={{ tableLabel: "First documents" }}
          columnDefinitions={COLUMNS}
          items={documents}
          trackBy="key"
        />
      ) : null}
      {trial.refused?.map((one) => (
        <Box key={one.key} variant="small">{`can’t be read: ${one.key}: ${one.reason}`}</Box>
      ))}
    </SpaceBetween>
  );
}

const COLUMNS: TableProps.ColumnDefinition<TrialDocument>[] = [
  { id: "title", header: "Document", isRowHeader: true, minWidth: 160, cell: (one) => <Named document={one} /> },
  { id: "text", header: "Begins with", minWidth: 200, cell: (one) => <span style={{ overflowWrap: "anywhere" }}>{one.text || "a file"}</span> },
  { id: "size", header: "Size", cell: (one) => one.size.toLocaleString() },
  { id: "updated", header: "Changed", cell: (one) => (one.lastUpdated ? moment(one.lastUpdated) : "–") },
];

function Named({ document }: { document: TrialDocument }) {
  return (
    <span style={{ overflowWrap: "anywhere" }}>
      {document.title || document.key}
      <Box variant="small" display="block">{document.sourceUri || document.key}</Box>
    </span>
  );
}
