/** One client: its items in every store, its projects, and its removal. */
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { ClientInventory } from "../api/schema";
import { Loaded } from "./Loaded";
import { State } from "./TenantList";
import { TenantProjects } from "./TenantProjects";
import { Removal, ServeAgain } from "./TenantRemoval";
import { TenantReport } from "./TenantReport";

export function TenantClient({ clientId }: { clientId: string }) {
  const client = useQuery({
    queryKey: ["clients", clientId],
    queryFn: () => data(api.GET("/clients/{clientId}", { params: { path: { clientId } } })),
  });
  return (
    <SpaceBetween size="l">
      <Link href="#/tenants">All clients</Link>
      <Loaded query={client}>{(found) => <Facts client={found} />}</Loaded>
      <TenantProjects clientId={clientId} />
      <Link href={`#/tenants?tab=audit&who=${encodeURIComponent(`client:${clientId}`)}`}>Who asked what for {clientId}</Link>
    </SpaceBetween>
  );
}

function Facts({ client }: { client: ClientInventory }) {
  const { clientId, state } = client;
  return (
    <SpaceBetween size="m">
      <Header
        variant="h2"
        description={<State state={state} since={client.since} />}
        actions={state === "removed" ? <ServeAgain clientId={clientId} /> : <Removal clientId={clientId} isBegun={state === "removing"} />}
      >
        {clientId}
      </Header>
      {state === "removed" ? <TenantReport clientId={clientId} /> : null}
      <ExpandableSection headerText="Items in each store" defaultExpanded={state !== "removed"}>
        <Table
          items={Object.entries(client.stores)}
          variant="embedded"
          ariaLabels={{ tableLabel: "Items in each store" }}
          columnDefinitions={[
            { id: "store", header: "Store", isRowHeader: true, cell: ([name]) => name },
            { id: "items", header: "Items", cell: ([, count]) => count.toLocaleString("en") },
          ]}
        />
      </ExpandableSection>
    </SpaceBetween>
  );
}
