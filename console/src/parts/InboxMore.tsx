/** Lists that the server pages: the rows read so far, and a button for the next page. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Loaded } from "./Loaded";

type Pages<T> = UseInfiniteQueryResult<InfiniteData<T>>;

/** Parameters of an infinite query over pages that name the next one. */
export const PAGING = {
  initialPageParam: "",
  getNextPageParam: (page: { next?: string }): string | undefined => page.next || undefined,
};

/** A number of rows; `+` if there are more pages. */
export function count<T>(query: Pages<T>, rows: (page: T) => readonly unknown[]): string {
  if (!query.data) return "";
  const read = query.data.pages.reduce((sum, page) => sum + rows(page).length, 0);
  return `(${read}${query.hasNextPage ? "+" : ""})`;
}

export const counted = (rows: readonly unknown[] | undefined, more = false): string =>
  rows ? `(${rows.length}${more ? "+" : ""})` : "";

interface Props<T> {
  query: Pages<T>;
  children: (pages: T[]) => ReactNode;
  note?: ReactNode;
  action?: string;
}

export function Paged<T>({ query, children, note, action = "Load more" }: Props<T>) {
  return (
    <Loaded query={query}>
      {({ pages }) => (
        <SpaceBetween size="s">
          {children(pages)}
          <SpaceBetween size="s" direction="horizontal" alignItems="center">
            {query.hasNextPage ? (
              <Button loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
                {action}
              </Button>
            ) : null}
            {note ? <Box variant="small">{note}</Box> : null}
          </SpaceBetween>
        </SpaceBetween>
      )}
    </Loaded>
  );
}

/** A button that reads a list again. */
export function Refresh({ query, of }: { query: { isFetching: boolean; refetch: () => unknown }; of: string }) {
  return (
    <Button iconName="refresh" ariaLabel={`Read ${of} again`} loading={query.isFetching} onClick={() => void query.refetch()} />
  );
}

/** Labels of the arrows that a narrow window has beside tabs. */
export const TAB_LABELS = { scrollLeftAriaLabel: "Show earlier tabs", scrollRightAriaLabel: "Show later tabs" };

export const day = (time: string): string => time.slice(0, 10);

/** A time of the API in the reader's own zone; empty for none. */
export const moment = (time: string): string =>
  time ? new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "";

export const askLink = (question: string): string => `#/?q=${encodeURIComponent(question)}`;
export const documentLink = (documentId: string): string => `#/documents/${encodeURIComponent(documentId)}`;
