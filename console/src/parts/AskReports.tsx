/** What a person says about an answer: it is the right document for the question, or something is missing. */
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Textarea from "@cloudscape-design/components/textarea";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { Confirm } from "./Confirm";
import { useTyped } from "./Unsaved";

interface MarkProps {
  question: string;
  documentId?: string;
  title?: string;
}

/** Adds the question to those that evaluations ask. Without a document, as one that has no answer. */
export function Mark({ question, documentId, title }: MarkProps) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: () =>
      data(api.POST("/evaluations/questions", { body: { text: question, documentIds: documentId ? [documentId] : [] } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["evaluations"] }),
  });
  if (add.data) return <StatusIndicator>evaluations ask it from now on</StatusIndicator>;
  return (
    <SpaceBetween size="xs" direction="horizontal" alignItems="center">
      <Button
        variant="inline-link"
        loading={add.isPending}
        ariaLabel={title ? `Mark as the right document: ${title}` : undefined}
        onClick={() => add.mutate()}
      >
        {documentId ? "Mark as the right document" : "Rightly no answer: ask it in evaluations"}
      </Button>
      {add.error ? <StatusIndicator type="error">{add.error.message}</StatusIndicator> : null}
    </SpaceBetween>
  );
}

/** Reports that the documents lack something. */
export function ReportGap({ question }: { question: string }) {
  const [isOpen, setOpen] = useState(false);
  const [missing, setMissing, release] = useTyped("");
  const queries = useQueryClient();
  const close = (): void => {
    release();
    setOpen(false);
  };
  const report = useMutation({
    mutationFn: () => data(api.POST("/gaps", { body: { question: question.slice(0, 10_000), missing } })),
    onSuccess: async () => {
      close();
      await queries.invalidateQueries({ queryKey: ["gaps"] });
    },
  });
  if (report.data) return <StatusIndicator>reported as a gap: see the inbox</StatusIndicator>;
  return (
    <>
      <Button onClick={() => setOpen(true)}>Report a gap</Button>
      {isOpen ? (
        <Confirm
          header="Report a gap"
          action="Report"
          isBusy={report.isPending}
          isIncomplete={!missing.trim()}
          error={report.error}
          onConfirm={() => report.mutate()}
          onDismiss={close}
        >
          <FormField label="What do the documents lack?" description={`For the question: ${question.slice(0, 200)}`}>
            <Textarea value={missing} rows={3} onChange={({ detail }) => setMissing(detail.value.slice(0, 1000))} />
          </FormField>
        </Confirm>
      ) : null}
    </>
  );
}
