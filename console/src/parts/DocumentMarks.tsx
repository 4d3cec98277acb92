/** Marks of documents: their state, tier and trust, and dates. */
import Badge from "@cloudscape-design/components/badge";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import type { DocumentState, KnowledgeDocument } from "../api/schema";

const STATES: Record<DocumentState, StatusIndicatorProps.Type> = { current: "success", superseded: "stopped", deleted: "error" };

export function StateMark({ state }: { state: DocumentState }) {
  return <StatusIndicator type={STATES[state]}>{state}</StatusIndicator>;
}

export function Trust({ document }: { document: Pick<KnowledgeDocument, "tier" | "trust"> }) {
  return (
    <span>
      <Badge color={document.tier === "internal" ? "green" : "grey"}>{document.tier}</Badge> {document.trust}
    </span>
  );
}

/** The day of a date or moment, a dash for none. */
export const day = (moment: string | undefined): string => moment?.slice(0, 10) || "–";

/** A moment of the API, which are in UTC, to the minute. */
export const minute = (moment: string | undefined): string =>
  moment ? moment.replace("T", " ").replace(/:\d\d(\.\d+)?Z$/, " UTC") : "–";
