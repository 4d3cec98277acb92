/** Alerts, runbooks and services: which have each other, which fired, which have nothing. */
import ContentLayout from "@cloudscape-design/components/content-layout";
import Button from "@cloudscape-design/components/button";
import Alert from "@cloudscape-design/components/alert";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import { useSearchParams } from "react-router";
import type { GraphCoverage } from "../api/schema";
import { CoverageAlerts } from "../parts/CoverageAlerts";
import { CoverageImport } from "../parts/CoverageImport";
import { AlertsUnsure, AlertsWithoutRunbook, Runbooks, ServicesWithoutRunbook } from "../parts/CoverageLists";
import { LOOKED_AT, useAlerts, useCoverage } from "../parts/CoverageQueries";
import { count, counted, Refresh, TAB_LABELS } from "../parts/InboxMore";
import { Loaded } from "../parts/Loaded";

const SPANS = [
  { value: "", label: "at any time" },
  { value: "7d", label: "in the last 7 days" },
  { value: "30d", label: "in the last 30 days" },
  { value: "90d", label: "in the last 90 days" },
  { value: "365d", label: "in the last year" },
];

export default function Coverage() {
  const [params, setParams] = useSearchParams();
  const [since, setSince] = useState("");
  const [limit, setLimit] = useState<number>(LOOKED_AT.few);
  const coverage = useCoverage(since, limit);
  const { data: found } = coverage;
  const alerts = count(useAlerts(false), (page) => page.alerts);
  const list = (show: (found: GraphCoverage) => React.ReactNode): React.ReactNode => (
    <SpaceBetween size="m">
      <Since since={since} change={setSince} action={<Refresh query={coverage} of="the coverage" />} />
      <Loaded query={coverage}>
        {(one) => (
          <SpaceBetween size="m">
            <Cut coverage={one} limit={limit} more={() => setLimit(LOOKED_AT.most)} />
            {show(one)}
          </SpaceBetween>
        )}
      </Loaded>
    </SpaceBetween>
  );
  return (
    <ContentLayout header={<Header variant="h1">Coverage</Header>}>
      <SpaceBetween size="l">
        <CoverageImport />
        <Tabs
          ariaLabel="Lists of the coverage"
          i18nStrings={TAB_LABELS}
          activeTabId={params.get("tab") ?? "alerts"}
          onChange={({ detail }) => setParams({ tab: detail.activeTabId })}
          tabs={[
            { id: "alerts", label: `Alerts ${alerts}`, content: <CoverageAlerts /> },
            {
              id: "without",
              label: `Without runbook ${counted(found?.alertsWithoutRunbook)}`,
              content: list((one) => <AlertsWithoutRunbook items={one.alertsWithoutRunbook ?? []} />),
            },
            {
              id: "unsure",
              label: `Unsure ${counted(found?.alertsUnsure)}`,
              content: list((one) => <AlertsUnsure items={one.alertsUnsure ?? []} />),
            },
            {
              id: "never",
              label: `Never fired ${counted(found?.runbooksNeverFired)}`,
              content: list((one) => (
                <Runbooks
                  title="Runbooks that never fire"
                  description="They are for alerts, none of which fired in this time."
                  items={one.runbooksNeverFired ?? []}
                />
              )),
            },
            {
              id: "unused",
              label: `Without alert ${counted(found?.runbooksWithoutAlert)}`,
              content: list((one) => (
                <Runbooks
                  title="Runbooks without an alert"
                  description="No alert leads to them: state the alert in the page, or the page in the rule."
                  items={one.runbooksWithoutAlert ?? []}
                />
              )),
            },
            {
              id: "services",
              label: `Services ${counted(found?.servicesWithoutRunbook)}`,
              content: list((one) => <ServicesWithoutRunbook items={one.servicesWithoutRunbook ?? []} />),
            },
          ]}
        />
      </SpaceBetween>
    </ContentLayout>
  );
}

function Since({ since, change, action }: { since: string; change: (since: string) => void; action: React.ReactNode }) {
  return (
    <SpaceBetween size="s" direction="horizontal" alignItems="end">
      <FormField label="Fired">
        <Select
          selectedOption={SPANS.find((one) => one.value === since) ?? null}
          options={SPANS}
          expandToViewport
          onChange={({ detail }) => change(detail.selectedOption.value ?? "")}
        />
      </FormField>
      {action}
    </SpaceBetween>
  );
}

/** Says that not everything was looked at, as a list may then lack things. */
function Cut({ coverage, limit, more }: { coverage: GraphCoverage; limit: number; more: () => void }) {
  if (!coverage.cut?.length) return null;
  const looked = Object.entries(coverage.lookedAt ?? {}).map(([type, number]) => `${number} of type ${type}`);
  return (
    <Alert
      type="info"
      header="Not everything was looked at"
      action={limit < LOOKED_AT.most ? <Button onClick={more}>Look at more</Button> : undefined}
    >
      {`Looked at ${looked.join(", ")}; there are more of type ${coverage.cut.join(", ")}.`}
    </Alert>
  );
}
