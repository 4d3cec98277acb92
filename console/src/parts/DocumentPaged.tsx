/** Pages of a request as they come, with a button that loads more; a spinner until then, or the error. */
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Loaded } from "./Loaded";

interface Props<T> {
  query: UseInfiniteQueryResult<InfiniteData<T>>;
  children: (pages: [T, ...T[]]) => ReactNode;
}

export function DocumentPaged<T>({ query, children }: Props<T>) {
  return (
    <Loaded query={query}>
      {({ pages: [first, ...others] }) => (
        <SpaceBetween size="m">
          {first === undefined ? null : children([first, ...others])}
          {query.hasNextPage ? (
            <Button loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Load more
            </Button>
          ) : null}
        </SpaceBetween>
      )}
    </Loaded>
  );
}
