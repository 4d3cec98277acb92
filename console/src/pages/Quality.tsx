/** How well questions are answered: runs of evaluations over time, two of them compared, and the questions that they ask. */
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useSearchParams } from "react-router";
import { TAB_LABELS } from "../parts/InboxMore";
import { QualityCanaries } from "../parts/QualityCanaries";
import { QualityCompare } from "../parts/QualityCompare";
import { QualityQuestions } from "../parts/QualityQuestions";
import { QualityRun } from "../parts/QualityRun";
import { QualityRuns } from "../parts/QualityRuns";

export default function Quality() {
  const [params, setParams] = useSearchParams();
  const tab = params.get("tab") ?? "runs";
  const run = params.get("run") ?? "";
  const other = params.get("with") ?? "";
  return (
    <SpaceBetween size="l">
      <Header variant="h1">Quality</Header>
      <Tabs
        ariaLabel="Parts of quality"
        i18nStrings={TAB_LABELS}
        activeTabId={tab}
        onChange={({ detail }) => setParams({ tab: detail.activeTabId })}
        tabs={[
          { id: "runs", label: "Runs", content: run ? <QualityRun runId={run} /> : <QualityRuns /> },
          { id: "compare", label: "Compare", content: <QualityCompare key={`${run} ${other}`} first={run} second={other} /> },
          { id: "questions", label: "Questions", content: <QualityQuestions /> },
          { id: "canaries", label: "Canaries", content: <QualityCanaries /> },
        ]}
      />
    </SpaceBetween>
  );
}
