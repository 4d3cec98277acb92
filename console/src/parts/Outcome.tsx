/** Records in one click whether a document helped. */
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMutation } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { OutcomeResult } from "../api/schema";

const RESULTS: [OutcomeResult, string][] = [
  ["resolved", "Resolved it"],
  ["no_effect", "No effect"],
  ["made_worse", "Made it worse"],
];

export function Outcome({ receiptId, documentId }: { receiptId: string; documentId: string }) {
  const record = useMutation({
    mutationFn: (result: OutcomeResult) => data(api.POST("/outcomes", { body: { receiptId, documentId, result } })),
  });
  if (record.data) {
    return <StatusIndicator>recorded: {record.data.result.replace("_", " ")}</StatusIndicator>;
  }
  return (
    <SpaceBetween size="xs" direction="horizontal" alignItems="center">
      {RESULTS.map(([result, text]) => (
        <Button key={result} loading={record.isPending && record.variables === result} onClick={() => record.mutate(result)}>
          {text}
        </Button>
      ))}
      {record.error ? <StatusIndicator type="error">{record.error.message}</StatusIndicator> : null}
    </SpaceBetween>
  );
}
