/** Where a version came from, and whether what is stored is still that. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { DocumentProvenance, Integrity, KnowledgeDocument } from "../api/schema";
import { minute } from "./DocumentMarks";
import { documentKey } from "./DocumentQueries";
import { Loaded } from "./Loaded";

const INTEGRITY: Record<Integrity, [StatusIndicatorProps.Type, string]> = {
  intact: ["success", "intact"],
  replaced: ["info", "replaced by another version"],
  altered: ["error", "altered: it is not what was ingested"],
  gone: ["warning", "gone"],
  unreadable: ["error", "unreadable"],
  unknown: ["pending", "unknown: no checksum is kept"],
};

export function DocumentOrigin({ document }: { document: KnowledgeDocument }) {
  const { documentId, version } = document;
  const query = useQuery({
    queryKey: [...documentKey(documentId), "provenance", version],
    queryFn: () =>
      data(api.GET("/documents/{documentId}/provenance", { params: { path: { documentId }, query: { version } } })),
  });
  return <Loaded query={query}>{(origin) => <Facts origin={origin} />}</Loaded>;
}

function Facts({ origin }: { origin: DocumentProvenance }) {
  const { provenance, object, text } = origin;
  return (
    <SpaceBetween size="l">
      <Header variant="h2">Where it came from</Header>
      {provenance ? null : <Alert type="info">This version was ingested before origins were recorded.</Alert>}
      {text.altered?.length ? (
        <Alert type="error" header="The stored text is not the one that was ingested">
          Changed passages: {text.altered.join(", ")}
        </Alert>
      ) : null}
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Channel", value: provenance ? channelOf(provenance.channel) : "unknown" },
          { label: "Put there by", value: provenance?.channel.principal || "unknown" },
          { label: "Proven by", value: provenance?.channel.proof || "nothing" },
          {
            label: "Attested",
            value: provenance?.attested ? "this installation put it" : "anyone with a right to write there may have put it",
          },
          { label: "At most as trusted as", value: provenance?.atMost || "no limit" },
          { label: "Ingested", value: minute(provenance?.ingestedAt) },
          { label: "Last reviewed by", value: provenance?.reviewedBy || "nobody" },
          { label: "Read as", value: provenance?.parser || "unknown" },
          { label: "Scope", value: origin.scope },
          { label: "Trust", value: `${origin.trust} (${origin.tier}, ${origin.category})` },
          { label: "File", value: <Stored integrity={object.integrity} /> },
          { label: "Its name in the corpus", value: object.key },
          { label: "Its SHA-256", value: <Checksum name="file" value={object.checksum} /> },
          { label: `Text (passages: ${text.chunks})`, value: <Stored integrity={text.integrity} /> },
          { label: "Its SHA-256", value: <Checksum name="text" value={text.checksum} /> },
          { label: "Version in the store", value: object.version || "none is kept" },
        ]}
      />
      <div>
        <Box variant="h3">Stated by its author, verified by nobody</Box>
        {origin.claims.length ? (
          <KeyValuePairs columns={3} items={origin.claims.map(({ field, value }) => ({ label: field, value }))} />
        ) : (
          <Box>Nothing</Box>
        )}
      </div>
    </SpaceBetween>
  );
}

const channelOf = ({ kind, name }: { kind: string; name?: string }): string => (name ? `${kind} ${name}` : kind);

function Stored({ integrity }: { integrity: Integrity }) {
  const [type, words] = INTEGRITY[integrity];
  return <StatusIndicator type={type}>{words}</StatusIndicator>;
}

function Checksum({ name, value }: { name: string; value: string }) {
  if (!value) return "unknown";
  return (
    <CopyToClipboard
      variant="inline"
      textToCopy={value}
      textToDisplay={value}
      copyButtonAriaLabel={`Copy the checksum of the ${name}`}
      copySuccessText="Copied"
      copyErrorText="The browser didn't allow it"
    />
  );
}
