/** Writes a draft of a runbook for a gap, under a name that its author chooses. */
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import type { GapView, ObjectState } from "../api/schema";
import { Problem } from "./Failed";
import { skeleton, suggestedSource } from "./GapDraft";
import { useGapChange } from "./InboxGapActions";
import { documentLink } from "./InboxMore";
import { NO_FILTER, useGaps } from "./InboxQueries";
import { Loaded } from "./Loaded";
import { TextEditor } from "./TextEditor";
import { isText } from "./TextQueries";
import { useTyped } from "./Unsaved";

export function InboxDraft({ gapId, onClose }: { gapId: string; onClose: () => void }) {
  const gaps = useGaps({ ...NO_FILTER, settled: true });
  return (
    <Loaded query={gaps}>
      {({ gaps: found }) => {
        const gap = found.find((one) => one.gapId === gapId);
        if (gap) return <Draft gap={gap} onClose={onClose} />;
        return (
          <Alert type="error" header="There is no such gap" action={<Button onClick={onClose}>Back to the inbox</Button>}>
            It was dropped, or belongs to another scope.
          </Alert>
        );
      }}
    </Loaded>
  );
}

function Draft({ gap, onClose }: { gap: GapView; onClose: () => void }) {
  const [source, setSource, release] = useTyped(() => suggestedSource(gap));
  const [original] = useState(() => ({ source: "", objectKey: "", text: skeleton(gap), revision: "" }));
  const [written, setWritten] = useState<ObjectState>();
  if (written) return <Written gap={gap} document={written} onClose={onClose} />;
  const name = source.trim().replace(/^\/+/, "");
  return (
    <SpaceBetween size="m">
      <Header variant="h2" description={`For the gap: ${gap.question}`}>
        Write a draft
      </Header>
      <FormField
        label="Name in the corpus"
        description="Its folder decides its category. A document of this name isn't replaced."
        errorText={isText(name) ? undefined : "It ends with .md or .txt"}
        stretch
      >
        <Input value={source} onChange={({ detail }) => setSource(detail.value)} />
      </FormField>
      <TextEditor
        source={isText(name) ? name : ""}
        original={original}
        onWritten={(state) => {
          release();
          setWritten(state);
        }}
        onCancel={() => {
          release();
          onClose();
        }}
      />
    </SpaceBetween>
  );
}

function Written({ gap, document, onClose }: { gap: GapView; document: ObjectState; onClose: () => void }) {
  const change = useGapChange(gap, onClose);
  const title = document.title || document.objectKey;
  return (
    <SpaceBetween size="m">
      {change.error ? <Problem error={change.error} /> : null}
      <Alert type={document.state === "waiting" ? "info" : "success"} header={`“${title}” is written`}>
        {document.documentId ? <Link href={documentLink(document.documentId)}>Open the document</Link> : "It waits to be ingested."}
      </Alert>
      <SpaceBetween size="xs" direction="horizontal">
        {gap.status === "open" ? (
          <Button
            variant="primary"
            loading={change.isPending}
            onClick={() => change.mutate({ action: "close", text: `documented: ${title}`.slice(0, 1000) })}
          >
            Close the gap
          </Button>
        ) : null}
        <Button variant="link" onClick={onClose}>
          Back to the inbox
        </Button>
      </SpaceBetween>
    </SpaceBetween>
  );
}
