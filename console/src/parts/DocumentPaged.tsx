/** Pages of a request as they come, with a button that loads more; a spinner until then, or the error. */
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Problem } from "./Failed";

interface Props<T> {
  query: UseInfiniteQueryResult<InfiniteData<T>>;
  children: (pages: [T, ...T[]]) => ReactNode;
}

export function DocumentPaged<T>({ query, children }: Props<T>) {
  const [first, ...others] = query.data?.pages ?? [];
  const problem = query.error ? <Problem error={query.error} again={() => void query.refetch()} /> : null;
  if (first === undefined) {
    if (problem) return problem;
    return query.failureReason ? (
      <StatusIndicator type="pending">{query.failureReason.message}</StatusIndicator>
    ) : (
      <Spinner size="large" />
    );
  }
  return (
    <SpaceBetween size="m">
      {problem}
      {children([first, ...others])}
      {query.hasNextPage ? (
        <Button loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Load more
        </Button>
      ) : null}
    </SpaceBetween>
  );
}
