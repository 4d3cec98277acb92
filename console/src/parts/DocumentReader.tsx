/** The text of a version, rendered or as it is stored, some of it at a time: a long one would take seconds to render. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMemo, useState } from "react";
import type { DocumentChunk } from "../api/schema";
import { DocumentPaged } from "./DocumentPaged";
import { joined, useChunks } from "./DocumentQueries";
import { DocumentText } from "./Markdown";

const CHARACTERS = 60_000;
const FORMS = [
  { id: "rendered", text: "Rendered" },
  { id: "source", text: "As stored" },
];

export function DocumentReader({ documentId }: { documentId: string }) {
  const query = useChunks(documentId);
  const [form, setForm] = useState("rendered");
  return (
    <SpaceBetween size="m">
      <Header
        variant="h2"
        actions={
          <SegmentedControl
            label="Form of the text"
            selectedId={form}
            options={FORMS}
            onChange={({ detail }) => setForm(detail.selectedId)}
          />
        }
      >
        Text
      </Header>
      <DocumentPaged query={query}>
        {(pages) => <Shown chunks={pages.flatMap((page) => page.chunks)} isRendered={form === "rendered"} />}
      </DocumentPaged>
    </SpaceBetween>
  );
}

function Shown({ chunks, isRendered }: { chunks: DocumentChunk[]; isRendered: boolean }) {
  const [limit, setLimit] = useState(CHARACTERS);
  const shown = useMemo(() => upTo(chunks, limit), [chunks, limit]);
  const text = useMemo(() => joined(shown), [shown]);
  const left = chunks.length - shown.length;
  if (!chunks.length) return <Box>It has no text.</Box>;
  return (
    <SpaceBetween size="m">
      {isRendered ? (
        <DocumentText text={text} />
      ) : (
        <pre className="opx-lines" tabIndex={0} aria-label="Text as stored">
          {text}
        </pre>
      )}
      {left ? <Button onClick={() => setLimit(limit + CHARACTERS)}>Show more ({left} passages)</Button> : null}
    </SpaceBetween>
  );
}

/** The first chunks, at least one, that end within a number of characters. */
function upTo(chunks: DocumentChunk[], characters: number): DocumentChunk[] {
  const count = chunks.findIndex((chunk) => chunk.end > characters);
  return count < 0 ? chunks : chunks.slice(0, Math.max(1, count));
}
