/** Clients and their projects: what each has, groups of projects, off-boarding with its proof, and who asked what. */
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useSearchParams } from "react-router";
import { type AuditFilter, HealthAudit } from "../parts/HealthAudit";
import { TAB_LABELS } from "../parts/InboxMore";
import { TenantClient } from "../parts/TenantClient";
import { TenantList } from "../parts/TenantList";

export default function Tenants() {
  const [params, setParams] = useSearchParams();
  const value = (name: string): string => params.get(name) ?? "";
  const client = value("client");
  const filter: AuditFilter = { who: value("who"), since: value("since"), documentId: value("document") };
  const setFilter = ({ who, since, documentId }: AuditFilter): void => {
    const given = Object.entries({ who, since, document: documentId }).filter(([, text]) => text);
    setParams({ tab: "audit", ...Object.fromEntries(given) });
  };
  return (
    <SpaceBetween size="l">
      <Header variant="h1">Tenants</Header>
      <Tabs
        ariaLabel="Parts of tenants"
        i18nStrings={TAB_LABELS}
        activeTabId={value("tab") || "clients"}
        onChange={({ detail }) => setParams({ tab: detail.activeTabId })}
        tabs={[
          { id: "clients", label: "Clients", content: client ? <TenantClient key={client} clientId={client} /> : <TenantList /> },
          { id: "audit", label: "Who asked what", content: <HealthAudit key={JSON.stringify(filter)} filter={filter} onFilter={setFilter} /> },
        ]}
      />
    </SpaceBetween>
  );
}
