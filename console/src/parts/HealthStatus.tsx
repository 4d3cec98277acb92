/** Counts and states of the installation, and its documents by category. */
import Header from "@cloudscape-design/components/header";
import Container from "@cloudscape-design/components/container";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Button from "@cloudscape-design/components/button";
import Table from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Backlog, Status } from "../api/schema";
import { Loaded } from "./Loaded";

export function HealthStatus() {
  const status = useQuery({
    queryKey: ["status"],
    queryFn: () => data(api.GET("/status")),
    refetchInterval: 15_000,
  });
  return (
    <Loaded query={status}>
      {(found) => (
        <SpaceBetween size="l">
          <Facts status={found} isBusy={status.isFetching} again={() => void status.refetch()} />
          <Categories status={found} />
        </SpaceBetween>
      )}
    </Loaded>
  );
}

function Facts({ status, isBusy, again }: { status: Status; isBusy: boolean; again: () => void }) {
  return (
    <Container
      header={
        <Header variant="h2" actions={<Button iconName="refresh" ariaLabel="Refresh" loading={isBusy} onClick={again} />}>
          Health
        </Header>
      }
    >
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Scope", value: status.scope },
          { label: "Documents", value: count(status.documents) },
          { label: "Passages", value: status.chunks === null ? "unknown" : count(status.chunks) },
          { label: "Waiting for a worker", value: <Waiting waiting={status.waiting} /> },
          { label: "Changes not ingested", value: <Changes backlog={status.backlog} /> },
          { label: "Failed", value: <FailedObjects failed={status.failed} /> },
          { label: "Index", value: <StatusIndicator type={status.index === "ok" ? "success" : "error"}>{status.index}</StatusIndicator> },
          { label: "Embedding model", value: status.embeddingModel || "unknown" },
          { label: "Models of confidence", value: status.confidence || "unknown" },
          { label: "API version", value: status.apiVersion },
        ]}
      />
    </Container>
  );
}

const OPERATORS_ONLY = "shown to operators only";

const count = (value: number): string => value.toLocaleString("en");

function Waiting({ waiting }: { waiting: number | null }) {
  if (waiting === null) return OPERATORS_ONLY;
  return <StatusIndicator type={waiting ? "in-progress" : "success"}>{count(waiting)}</StatusIndicator>;
}

function Changes({ backlog }: { backlog: Backlog | null }) {
  if (!backlog) return OPERATORS_ONLY;
  const since = backlog.oldest ? `, the oldest of ${backlog.oldest.slice(0, 16).replace("T", " ")}` : "";
  return (
    <StatusIndicator type={backlog.changes ? "in-progress" : "success"}>
      {count(backlog.changes)}
      {backlog.more ? " or more" : ""}
      {since}
    </StatusIndicator>
  );
}

function FailedObjects({ failed }: { failed: number | null }) {
  if (failed === null) return "not shown to readers without a client";
  if (!failed) return <StatusIndicator>0</StatusIndicator>;
  return (
    <StatusIndicator type="error">
      {count(failed)} <Link href="#/inbox">see the inbox</Link>
    </StatusIndicator>
  );
}

function Categories({ status }: { status: Status }) {
  const names = [...new Set([...Object.keys(status.categories), ...Object.keys(status.expired)])].sort();
  return (
    <Table
      items={names}
      ariaLabels={{ tableLabel: "Documents by category" }}
      header={
        <Header variant="h2" counter={`(${names.length})`}>
          Documents by category
        </Header>
      }
      empty="There are no documents"
      columnDefinitions={[
        { id: "name", header: "Category", isRowHeader: true, cell: (name) => name },
        { id: "documents", header: "Documents", cell: (name) => count(status.categories[name] ?? 0) },
        { id: "expired", header: "Hidden past their retention", cell: (name) => count(status.expired[name] ?? 0) },
      ]}
    />
  );
}
