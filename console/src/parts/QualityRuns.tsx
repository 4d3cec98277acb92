/** Runs of evaluations: their figures over time and by source, and a button that runs one. */
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useState } from "react";
import { useSearchParams } from "react-router";
import type { KeptRun } from "../api/schema";
import { Problem } from "./Failed";
import { count, moment, Paged } from "./InboxMore";
import { Progress } from "./Progress";
import { QualityCharts } from "./QualityCharts";
import { mainFigures, nameOf, share, useEvaluate, useRuns } from "./QualityQueries";

export function QualityRuns() {
  const runs = useRuns();
  const { evaluate, step, stop } = useEvaluate();
  const [, setParams] = useSearchParams();
  const [chosen, setChosen] = useState<KeptRun[]>([]);
  const [second, first] = chosen;
  const actions = (
    <SpaceBetween size="xs" direction="horizontal">
      <Button
        disabled={!first || !second}
        onClick={() => first && second && setParams({ tab: "compare", run: first.runId, with: second.runId })}
      >
        Compare the two chosen
      </Button>
      <Button variant="primary" loading={evaluate.isPending} onClick={() => evaluate.mutate("")}>
        Run an evaluation
      </Button>
    </SpaceBetween>
  );
  return (
    <SpaceBetween size="l">
      {evaluate.isPending ? <Progress step={step} stop={stop} /> : null}
      {evaluate.error ? <Problem error={evaluate.error} /> : null}
      <Paged query={runs}>
        {(pages) => {
          const found = pages.flatMap((page) => page.runs);
          return (
            <SpaceBetween size="l">
              <Table
                items={found}
                trackBy="runId"
                selectionType="multi"
                selectedItems={chosen}
                onSelectionChange={({ detail }) => setChosen(inOrder(found, detail.selectedItems).slice(0, 2))}
                wrapLines
                ariaLabels={{
                  tableLabel: "Evaluation runs",
                  selectionGroupLabel: "Runs to compare",
                  allItemsSelectionLabel: () => "Choose the newest two",
                  itemSelectionLabel: (_, run) => `Choose the run of ${moment(run.started)}`,
                }}
                header={
                  <Header variant="h2" counter={count(runs, (page) => page.runs)} actions={actions} description={EXPLAINED}>
                    Runs
                  </Header>
                }
                empty="Nothing was evaluated yet: add questions from answers, then run an evaluation"
                columnDefinitions={columns((run) => evaluate.mutate(run.runId), evaluate.isPending)}
              />
              <QualityCharts runs={found} />
            </SpaceBetween>
          );
        }}
      </Paged>
    </SpaceBetween>
  );
}

const EXPLAINED =
  "Answered: with a result above the usual confidence. Right: of these, with a right document first. Refused: of questions without an answer, those that got none.";

/** The chosen runs in the order of the list, the newest first. */
const inOrder = (all: KeptRun[], chosen: KeptRun[]): KeptRun[] => {
  const ids = new Set(chosen.map((one) => one.runId));
  return all.filter((one) => ids.has(one.runId));
};

function columns(goOn: (run: KeptRun) => void, isBusy: boolean) {
  return [
    {
      id: "started",
      header: "Started",
      isRowHeader: true,
      minWidth: 150,
      cell: (run: KeptRun) => <Link href={`#/quality?run=${run.runId}`}>{moment(run.started)}</Link>,
    },
    { id: "of", header: "Of", cell: nameOf },
    {
      id: "questions",
      header: "Questions",
      cell: (run: KeptRun) =>
        run.state === "done" ? (
          run.questions
        ) : (
          <>
            <StatusIndicator type="in-progress">
              {run.asked ?? 0} of {run.questions}
            </StatusIndicator>{" "}
            {run.dataset ? null : (
              <Button variant="inline-link" disabled={isBusy} onClick={() => goOn(run)}>
                Go on
              </Button>
            )}
          </>
        ),
    },
    { id: "ndcg", header: "nDCG@10", cell: (run: KeptRun) => share(mainFigures(run)?.ndcg) },
    { id: "answered", header: "Answered", cell: (run: KeptRun) => share(mainFigures(run)?.answered) },
    { id: "right", header: "Right", cell: (run: KeptRun) => share(mainFigures(run)?.right) },
    { id: "refused", header: "Refused", cell: (run: KeptRun) => share(mainFigures(run)?.refused) },
    { id: "calibration", header: "Calibration error", cell: (run: KeptRun) => share(mainFigures(run)?.calibrationError) },
    {
      id: "latency",
      header: "p50, p95",
      minWidth: 120,
      cell: (run: KeptRun) => {
        const figures = mainFigures(run);
        return figures ? `${Math.round(figures.p50Ms)}, ${Math.round(figures.p95Ms)} ms` : "";
      },
    },
    { id: "by", header: "By", cell: (run: KeptRun) => run.by || "unknown" },
  ];
}
