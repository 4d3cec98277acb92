/** Documents with masked secrets: their places, and what their owners have to do. No secret is ever shown. */
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import type { MaskedDocument, OriginalState } from "../api/schema";
import { count, documentLink, Paged, Refresh } from "./InboxMore";
import { useSecrets } from "./InboxQueries";

export function InboxSecrets() {
  const secrets = useSecrets();
  return (
    <Paged query={secrets}>
      {(pages) => (
        <Table
          wrapLines
          header={
            <Header
              variant="h2"
              counter={count(secrets, (page) => page.documents)}
              description="They are masked in the index and in answers; the original has them still unless it is encrypted or gone."
              actions={<Refresh query={secrets} of="masked secrets" />}
            >
              Documents with masked secrets
            </Header>
          }
          ariaLabels={{ tableLabel: "Documents with masked secrets" }}
          columnDefinitions={COLUMNS}
          items={pages.flatMap((page) => page.documents)}
          trackBy={(one) => `${one.scope} ${one.source}`}
          empty={<Box textAlign="center">No document has masked secrets</Box>}
        />
      )}
    </Paged>
  );
}

const ORIGINALS: Record<OriginalState, StatusIndicatorProps.Type> = { plain: "warning", encrypted: "success", gone: "success" };

const COLUMNS: TableProps.ColumnDefinition<MaskedDocument>[] = [
  {
    id: "title",
    header: "Document",
    isRowHeader: true,
    minWidth: 200,
    cell: (one) => <Link href={documentLink(one.documentId)}>{one.title}</Link>,
  },
  { id: "owner", header: "Owner", cell: (one) => one.owner || "nobody" },
  {
    id: "kinds",
    header: "Secrets",
    cell: (one) =>
      Object.entries(one.kinds)
        .map(([kind, times]) => `${times} × ${kind}`)
        .join(", "),
  },
  { id: "places", header: "Where", minWidth: 160, cell: (one) => <Places document={one} /> },
  {
    id: "original",
    header: "Original",
    cell: ({ original = "plain" }) => <StatusIndicator type={ORIGINALS[original]}>{original}</StatusIndicator>,
  },
  { id: "remedies", header: "What to do", minWidth: 220, cell: (one) => <Remedies remedies={one.remedies ?? []} /> },
];

function Places({ document }: { document: MaskedDocument }) {
  return (
    <>
      {document.secrets.map((one) => `${one.place}: ${one.kind}${one.fingerprint ? ` (${one.fingerprint})` : ""}`).join("; ")}
      {document.more ? `; ${document.more}` : ""}
    </>
  );
}

function Remedies({ remedies }: { remedies: string[] }) {
  if (!remedies.length) return <>–</>;
  return (
    <ExpandableSection headerText={`${remedies.length} steps`}>
      <ol style={{ margin: 0, paddingInlineStart: 20 }}>
        {remedies.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ol>
    </ExpandableSection>
  );
}
