/** The state of the installation, who asked what, and what is kept for how long. */
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useSearchParams } from "react-router";
import { HealthAudit, type AuditFilter } from "../parts/HealthAudit";
import { HealthCalibration } from "../parts/HealthCalibration";
import { HealthCosts } from "../parts/HealthCosts";
import { HealthHolds } from "../parts/HealthHolds";
import { HealthIndex } from "../parts/HealthIndex";
import { HealthPrunings } from "../parts/HealthPrunings";
import { HealthStatus } from "../parts/HealthStatus";
import { HealthUsage } from "../parts/HealthUsage";

export default function Health() {
  const [params, setParams] = useSearchParams();
  const value = (name: string): string => params.get(name) ?? "";
  const filter: AuditFilter = { who: value("who"), since: value("since"), documentId: value("document") };
  const setFilter = ({ who, since, documentId }: AuditFilter): void => {
    const given = Object.entries({ who, since, document: documentId }).filter(([, text]) => text);
    setParams({ tab: "audit", ...Object.fromEntries(given) });
  };
  return (
    <SpaceBetween size="l">
      <Header variant="h1">Health and audit</Header>
      <Tabs
        ariaLabel="Parts of health"
        i18nStrings={{ scrollLeftAriaLabel: "Show the tabs before", scrollRightAriaLabel: "Show the tabs after" }}
        activeTabId={value("tab") || "status"}
        onChange={({ detail }) => setParams(detail.activeTabId === "status" ? {} : { tab: detail.activeTabId })}
        tabs={[
          { id: "status", label: "Status", content: <HealthStatus /> },
          { id: "index", label: "Index and stores", content: <HealthIndex /> },
          { id: "audit", label: "Audit", content: <HealthAudit key={JSON.stringify(filter)} filter={filter} onFilter={setFilter} /> },
          { id: "usage", label: "Use", content: <HealthUsage /> },
          { id: "costs", label: "Costs", content: <HealthCosts /> },
          { id: "confidence", label: "Confidence", content: <HealthCalibration /> },
          { id: "prunings", label: "Prunings", content: <HealthPrunings /> },
          { id: "holds", label: "Holds", content: <HealthHolds /> },
        ]}
      />
    </SpaceBetween>
  );
}
