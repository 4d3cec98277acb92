/** Edits a text. If somebody else wrote another one meanwhile, both are shown, and nothing is lost. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import FormField from "@cloudscape-design/components/form-field";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "../api/client";
import type { ObjectState, OriginalText } from "../api/schema";
import { Confirm } from "./Confirm";
import { Problem } from "./Failed";
import { DocumentText } from "./Markdown";
import { isConflict, readText, useWrite } from "./TextQueries";
import { useTyped } from "./Unsaved";

const ROWS = 24;
const FORMS = [
  { id: "text", text: "Text" },
  { id: "preview", text: "Preview" },
];

interface Props {
  source: string;
  /** The stored text, or that of a draft with no revision. */
  original: OriginalText;
  onWritten: (state: ObjectState) => void;
  onCancel: () => void;
}

export function TextEditor({ source, original, onWritten, onCancel }: Props) {
  const [taken, setTaken] = useState<OriginalText>();
  const [text, setText, release] = useTyped(original.text);
  const [found, setFound] = useState<OriginalText>();
  // A draft may get another name, under which nothing was found.
  const newer = found?.source === source ? found : undefined;
  const base = taken?.source === source ? taken : original;
  const look = useMutation({ mutationFn: () => newest(source), onSuccess: setFound });
  const write = useWrite((state) => {
    if (state.state === "failed") return;
    release();
    onWritten(state);
  });
  const save = (onto: OriginalText): void => {
    write.mutate({ source, text, original: onto }, { onError: (error) => (isConflict(error) ? look.mutate() : undefined) });
  };
  const take = (other: OriginalText): void => {
    setTaken(other);
    setText(other.text);
    setFound(undefined);
    write.reset();
  };
  const failed = write.data?.state === "failed" ? write.data.reason : "";
  return (
    <SpaceBetween size="m">
      {write.error ? <Problem error={write.error} /> : null}
      {look.error ? <Problem error={look.error} again={() => look.mutate()} /> : null}
      {failed ? <Alert type="error" header="It is stored, but couldn't be ingested">{failed}</Alert> : null}
      {newer ? (
        <Both text={text} newer={newer} setText={setText} />
      ) : (
        <One text={text} setText={setText} />
      )}
      <SpaceBetween size="xs" direction="horizontal">
        <Button
          variant="primary"
          loading={write.isPending || look.isPending}
          disabled={!source || !text.trim() || (text === base.text && base.revision !== "")}
          onClick={() => save(newer ?? base)}
        >
          {newer ? "Save the merged text" : "Save"}
        </Button>
        {newer ? <Discard newer={newer} take={take} /> : null}
        <Button
          variant="link"
          onClick={() => {
            release();
            onCancel();
          }}
        >
          Cancel
        </Button>
      </SpaceBetween>
    </SpaceBetween>
  );
}

/** The stored text by now; without a revision, if the document is gone. */
async function newest(source: string): Promise<OriginalText> {
  try {
    return await readText(source);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { source, objectKey: "", text: "", revision: "" };
    throw error;
  }
}

interface TextProps {
  text: string;
  setText: (text: string) => void;
}

function One({ text, setText }: TextProps) {
  const [form, setForm] = useState("text");
  return (
    <SpaceBetween size="s">
      <SegmentedControl label="Form" selectedId={form} options={FORMS} onChange={({ detail }) => setForm(detail.selectedId)} />
      {form === "text" ? <Field label="Your text" text={text} setText={setText} /> : <DocumentText text={text} />}
    </SpaceBetween>
  );
}

function Both({ text, newer, setText }: TextProps & { newer: OriginalText }) {
  const isGone = !newer.revision;
  return (
    <SpaceBetween size="s">
      <Box>
        {isGone
          ? "The document was deleted meanwhile. Saving writes your text as a new document."
          : "Merge what you need of the newer text into yours, and save that. Nothing is written until then."}
      </Box>
      <ColumnLayout columns={isGone ? 1 : 2}>
        <Field label="Your text" text={text} setText={setText} />
        {isGone ? null : <Field label="The newer text" text={newer.text} />}
      </ColumnLayout>
    </SpaceBetween>
  );
}

function Field({ label, text, setText }: { label: string; text: string; setText?: (text: string) => void }) {
  return (
    <FormField label={label} stretch>
      <Textarea
        value={text}
        rows={ROWS}
        spellcheck
        readOnly={!setText}
        onChange={({ detail }) => setText?.(detail.value)}
      />
    </FormField>
  );
}

function Discard({ newer, take }: { newer: OriginalText; take: (newer: OriginalText) => void }) {
  const [asked, setAsked] = useState(false);
  return (
    <>
      <Button onClick={() => setAsked(true)}>Discard mine</Button>
      {asked ? (
        <Confirm
          header="Discard your text?"
          action="Discard"
          isBusy={false}
          error={null}
          onConfirm={() => take(newer)}
          onDismiss={() => setAsked(false)}
        >
          <div>What you wrote is lost; the newer text stays as it is.</div>
        </Confirm>
      ) : null}
    </>
  );
}
