/** Words and marks of learning. */
import Alert from "@cloudscape-design/components/alert";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import type { EntryType, Pattern } from "../api/schema";
import { ApiError } from "../api/client";

export const TYPES: Record<EntryType, string> = {
  failure_solution: "solution of a failure",
  gate_rejection: "rejected at a review",
  gate_approval: "approved at a review",
  warning: "warning",
};

/** True if the caller is refused because only orchestrators may do it. */
export const isRefused = (error: unknown): boolean => error instanceof ApiError && error.status === 403;

/** The refusal in the server's words, which say how to become one who may. */
export function Refused({ error }: { error: Error | null }) {
  return (
    <Alert type="info" header="Only orchestrators see and change patterns">
      {error?.message}
    </Alert>
  );
}

/** How often a pattern worked and failed; one that did both is contested. */
export function Success({ pattern }: { pattern: Pattern }) {
  const { successCount: worked, failureCount: failed } = pattern;
  const type = failed === 0 ? "success" : worked === 0 ? "error" : "warning";
  const words = failed && worked ? "conflict: " : "";
  if (pattern.retired) return <StatusIndicator type="stopped">{`retired: worked ${worked}, failed ${failed}`}</StatusIndicator>;
  return (
    <StatusIndicator type={worked + failed ? type : "pending"}>
      {words}worked {worked}, failed {failed}
    </StatusIndicator>
  );
}
