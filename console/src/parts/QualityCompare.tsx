/** Two runs compared question by question, those that lost most first. */
import Box from "@cloudscape-design/components/box";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { api, data } from "../api/client";
import type { ComparedQuestion, EvaluationComparison, KeptRun } from "../api/schema";
import { moment, Paged } from "./InboxMore";
import { Judged } from "./QualityRun";
import { nameOf, share, useRuns } from "./QualityQueries";

interface Props {
  first: string;
  second: string;
}

export function QualityCompare({ first, second }: Props) {
  const runs = useRuns();
  const [, setParams] = useSearchParams();
  const found = runs.data?.pages.flatMap((page) => page.runs).filter((one) => one.state === "done") ?? [];
  const choose = (run: string, other: string): void =>
    setParams({ tab: "compare", ...(run ? { run } : {}), ...(other ? { with: other } : {}) });
  return (
    <SpaceBetween size="l">
      <SpaceBetween size="s" direction="horizontal">
        <Chosen label="The earlier run" runs={found} chosen={first} onChoose={(run) => choose(run, second)} />
        <Chosen label="The later run" runs={found} chosen={second} onChoose={(other) => choose(first, other)} />
      </SpaceBetween>
      {first && second ? <Compared first={first} second={second} /> : <Box>Choose two runs.</Box>}
    </SpaceBetween>
  );
}

interface ChosenProps {
  label: string;
  runs: KeptRun[];
  chosen: string;
  onChoose: (runId: string) => void;
}

function Chosen({ label, runs, chosen, onChoose }: ChosenProps) {
  const options = runs.map((one) => ({ value: one.runId, label: `${moment(one.started)}, ${nameOf(one)}` }));
  return (
    <FormField label={label}>
      <Select
        options={options}
        selectedOption={options.find((one) => one.value === chosen) ?? null}
        placeholder="Choose a run"
        expandToViewport
        onChange={({ detail }) => onChoose(detail.selectedOption.value ?? "")}
      />
    </FormField>
  );
}

function Compared({ first, second }: Props) {
  const comparison = useInfiniteQuery({
    queryKey: ["evaluations", "comparison", first, second],
    queryFn: ({ pageParam }) =>
      data(
        api.GET("/evaluations/{runId}/comparison", {
          params: { path: { runId: first }, query: { with: second, after: pageParam } },
        }),
      ),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next || undefined,
  });
  return (
    <Paged query={comparison}>
      {(pages) => {
        const [page] = pages;
        return page ? (
          <SpaceBetween size="m">
            <Summary found={page} />
            <Differences questions={pages.flatMap((one) => one.questions ?? [])} />
          </SpaceBetween>
        ) : null;
      }}
    </Paged>
  );
}

function Summary({ found }: { found: EvaluationComparison }) {
  const [before, after] = found.ndcg ?? [];
  return (
    <KeyValuePairs
      columns={4}
      items={[
        { label: "Questions in both", value: `${found.common ?? 0}, and ${found.onlyOne ?? 0} in one of them only` },
        { label: "nDCG@10", value: `${share(before)} → ${share(after)}` },
        { label: "Better", value: found.better ?? 0 },
        { label: "Worse", value: found.worse ?? 0 },
        {
          label: "Corpus",
          value: found.first.corpus === found.second.corpus ? "the same" : "changed between them",
        },
        { label: "Program", value: `${found.first.opx ?? ""} → ${found.second.opx ?? ""}` },
      ]}
    />
  );
}

function Differences({ questions }: { questions: ComparedQuestion[] }) {
  return (
    <Table
      items={questions}
      trackBy="questionId"
      wrapLines
      ariaLabels={{ tableLabel: "Compared questions" }}
      header={<Header variant="h2">Question by question</Header>}
      empty="They have no question in common"
      columnDefinitions={[
        { id: "text", header: "Question", isRowHeader: true, minWidth: 220, cell: (one) => one.text },
        { id: "source", header: "Source", cell: (one) => one.source },
        { id: "first", header: "Earlier", minWidth: 130, cell: (one) => <Judged reply={one.first} /> },
        { id: "second", header: "Later", minWidth: 130, cell: (one) => <Judged reply={one.second} /> },
        { id: "ranks", header: "Right one at", cell: (one) => `${rank(one.first.rank)} → ${rank(one.second.rank)}` },
        { id: "difference", header: "nDCG@10", cell: (one) => signed(one.difference) },
      ]}
    />
  );
}

const rank = (value: number | null): string => (value ? `#${value}` : "not found");
const signed = (value: number | null): string => (value === null ? "none" : `${value > 0 ? "+" : ""}${value.toFixed(3)}`);
