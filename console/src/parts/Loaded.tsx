/** What a request gave; until then a spinner, and its error if it fails. */
import Spinner from "@cloudscape-design/components/spinner";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Problem } from "./Failed";

interface Props<T> {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
}

export function Loaded<T>({ query, children }: Props<T>) {
  if (query.data !== undefined) {
    return (
      <>
        {query.error ? <Problem error={query.error} again={() => void query.refetch()} /> : null}
        {children(query.data)}
      </>
    );
  }
  if (query.error) return <Problem error={query.error} again={() => void query.refetch()} />;
  if (query.failureReason) {
    return <StatusIndicator type="pending">{query.failureReason.message}</StatusIndicator>;
  }
  return <Spinner size="large" />;
}
