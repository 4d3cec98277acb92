/** Questions and documents of a month, by client. */
import Button from "@cloudscape-design/components/button";
import DateInput from "@cloudscape-design/components/date-input";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import Table from "@cloudscape-design/components/table";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { ClientUsage } from "../api/schema";
import { Problem } from "./Failed";

const PAGE = 100;
const MONTH = /^\d{4}-(0[1-9]|1[0-2])$/;

export function HealthUsage() {
  const [text, setText] = useState("");
  const [month, setMonth] = useState("");
  const usage = useInfiniteQuery({
    queryKey: ["usage", month],
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/usage", {
          params: { query: { limit: PAGE, ...(month ? { month } : {}), ...(pageParam ? { after: pageParam } : {}) } },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next || undefined,
  });
  const isMonth = text === "" || MONTH.test(text);
  return (
    <SpaceBetween size="m">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isMonth) setMonth(text);
        }}
      >
        <SpaceBetween size="s" direction="horizontal" alignItems="end">
          <FormField label="Month" description="Empty for this month (UTC)" errorText={isMonth ? "" : "Write a month as 2026-11"}>
            <DateInput
              value={text}
              granularity="month"
              format="iso"
              placeholder="YYYY-MM"
              invalid={!isMonth}
              onChange={({ detail }) => setText(detail.value)}
            />
          </FormField>
          <Button formAction="submit">Show</Button>
        </SpaceBetween>
      </form>
      {usage.error ? <Problem error={usage.error} again={() => void usage.refetch()} /> : null}
      {usage.isPending && !usage.error ? <Spinner size="large" /> : null}
      {usage.data ? (
        <Clients
          month={usage.data.pages[0]?.month ?? month}
          clients={usage.data.pages.flatMap((page) => page.clients)}
          hasMore={usage.hasNextPage}
          isBusy={usage.isFetchingNextPage}
          onMore={() => void usage.fetchNextPage()}
        />
      ) : null}
    </SpaceBetween>
  );
}

interface ClientsProps {
  month: string;
  clients: ClientUsage[];
  hasMore: boolean;
  isBusy: boolean;
  onMore: () => void;
}

function Clients({ month, clients, hasMore, isBusy, onMore }: ClientsProps) {
  const number = (value: number | null): string => (value === null ? "no audit log" : value.toLocaleString("en"));
  return (
    <Table
      items={clients}
      trackBy="clientId"
      ariaLabels={{ tableLabel: "Use by client" }}
      header={
        <Header variant="h2" counter={`(${clients.length}${hasMore ? ", and more" : ""})`} description="Each day is counted in the night after it.">
          Use in {month}
        </Header>
      }
      empty="Nothing was counted in this month"
      footer={
        hasMore ? (
          <Button loading={isBusy} onClick={onMore}>
            Load more
          </Button>
        ) : null
      }
      columnDefinitions={[
        { id: "client", header: "Client", isRowHeader: true, cell: (one) => one.clientId || "global" },
        { id: "days", header: "Days counted", cell: (one) => one.days },
        { id: "questions", header: "Questions", cell: (one) => number(one.questions) },
        { id: "documents", header: "Documents", cell: (one) => number(one.documents) },
        { id: "chunks", header: "Passages", cell: (one) => number(one.chunks) },
        { id: "tokens", header: "Tokens", cell: (one) => number(one.tokens) },
        { id: "chunkDays", header: "Passage days", cell: (one) => number(one.chunkDays) },
        { id: "newDocuments", header: "New documents", cell: (one) => number(one.ingestedDocuments) },
        { id: "newChunks", header: "New passages", cell: (one) => number(one.ingestedChunks) },
        { id: "newTokens", header: "New tokens", cell: (one) => number(one.ingestedTokens) },
      ]}
    />
  );
}
