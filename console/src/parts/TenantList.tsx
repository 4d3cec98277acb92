/** All clients with their numbers: documents and projects of now, passages and questions as they were counted last night. */
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { ClientState, ClientUsage } from "../api/schema";
import { day, Refresh } from "./InboxMore";
import { Loaded } from "./Loaded";

export function TenantList() {
  const clients = useQuery({ queryKey: ["clients"], queryFn: () => data(api.GET("/clients")) });
  const usage = useQuery({ queryKey: ["usage", "of clients"], queryFn: () => data(api.GET("/usage")) });
  const used = new Map<string, ClientUsage>(usage.data?.clients.map((one) => [one.clientId, one]));
  const counted = (value: number | null | undefined): string => (value == null ? "not counted yet" : value.toLocaleString("en"));
  return (
    <Loaded query={clients}>
      {({ clients: found }) => (
        <Table
          items={found}
          trackBy="clientId"
          ariaLabels={{ tableLabel: "Clients" }}
          header={
            <Header
              variant="h2"
              counter={`(${found.length})`}
              description="Passages and questions are of this month, as counted in the last night."
              actions={<Refresh query={clients} of="clients" />}
            >
              Clients
            </Header>
          }
          empty="No client has anything here: all documents are everybody’s"
          columnDefinitions={[
            {
              id: "client",
              header: "Client",
              isRowHeader: true,
              cell: (one) => <Link href={`#/tenants?client=${encodeURIComponent(one.clientId)}`}>{one.clientId}</Link>,
            },
            { id: "state", header: "State", cell: (one) => <State state={one.state} since={one.since} /> },
            { id: "documents", header: "Documents", cell: (one) => one.documents.toLocaleString("en") },
            { id: "projects", header: "Projects", cell: (one) => one.projects },
            { id: "passages", header: "Passages", cell: (one) => counted(used.get(one.clientId)?.chunks) },
            { id: "questions", header: "Questions", cell: (one) => counted(used.get(one.clientId)?.questions) },
          ]}
        />
      )}
    </Loaded>
  );
}

const STATES: Record<ClientState, StatusIndicatorProps.Type> = { active: "success", removing: "in-progress", removed: "stopped" };

export function State({ state, since }: { state: ClientState; since: string }) {
  return (
    <StatusIndicator type={STATES[state]}>
      {state}
      {since ? ` since ${day(since)}` : ""}
    </StatusIndicator>
  );
}
