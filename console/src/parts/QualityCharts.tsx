/** Figures of runs over time, for one set of questions at a time. */
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import LineChart, { type LineChartProps } from "@cloudscape-design/components/line-chart";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Container from "@cloudscape-design/components/container";
import { useState } from "react";
import type { KeptRun, ModeFigures } from "../api/schema";
import { mainFigures, nameOf } from "./QualityQueries";

type Value = (figures: ModeFigures) => number | null | undefined;

const SHARES: [string, Value][] = [
  ["nDCG@10", (one) => one.ndcg],
  ["Answered", (one) => one.answered],
  ["Right", (one) => one.right],
  ["Refused", (one) => one.refused],
  ["Calibration error", (one) => one.calibrationError],
];

const LATENCIES: [string, Value][] = [
  ["p50", (one) => one.p50Ms],
  ["p95", (one) => one.p95Ms],
];

export function QualityCharts({ runs }: { runs: KeptRun[] }) {
  const done = runs.filter((one) => mainFigures(one)).reverse();
  const sets = [...new Set(done.map(nameOf))];
  const [chosen, setChosen] = useState("");
  const set = sets.includes(chosen) ? chosen : (sets.at(-1) ?? "");
  const shown = done.filter((one) => nameOf(one) === set);
  if (!shown.length) return null;
  const sources = [...new Set(shown.flatMap((run) => mainFigures(run)?.sources.map((one) => one.source) ?? []))].sort();
  const bySource: [string, Value][] = sources.map((name) => [name, (one) => one.sources.find(({ source }) => source === name)?.ndcg]);
  return (
    <Container header={<Header variant="h2">Over time</Header>}>
      <SpaceBetween size="l">
        {sets.length > 1 ? (
          <FormField label="Questions">
            <Select
              selectedOption={{ value: set, label: set }}
              options={sets.map((value) => ({ value, label: value }))}
              onChange={({ detail }) => setChosen(detail.selectedOption.value ?? "")}
            />
          </FormField>
        ) : null}
        <Chart name="Shares and errors" runs={shown} values={SHARES} top={1} />
        <Chart name="nDCG@10 by source" runs={shown} values={bySource} top={1} />
        <Chart name="Latency in milliseconds" runs={shown} values={LATENCIES} />
      </SpaceBetween>
    </Container>
  );
}

interface ChartProps {
  name: string;
  runs: KeptRun[];
  values: [string, Value][];
  top?: number;
}

function Chart({ name, runs, values, top }: ChartProps) {
  const series: LineChartProps<Date>["series"] = values.map(([title, value]) => ({
    title,
    type: "line",
    data: runs.flatMap((run) => {
      const figures = mainFigures(run);
      const y = figures ? value(figures) : null;
      return y == null ? [] : [{ x: new Date(run.started), y }];
    }),
    valueFormatter: (y) => (top ? y.toFixed(3) : `${Math.round(y)} ms`),
  }));
  const times = runs.map((run) => new Date(run.started).getTime());
  const highest = Math.max(1, ...series.flatMap((one) => ("data" in one ? one.data.map(({ y }) => y) : [])));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  return (
    <div>
      <Header variant="h3">{name}</Header>
      <LineChart
        ariaLabel={name}
        series={series.filter((one) => "data" in one && one.data.length > 0)}
        xScaleType="time"
        xDomain={from === to ? [new Date(from - 43_200_000), new Date(to + 43_200_000)] : [new Date(from), new Date(to)]}
        yDomain={[0, top ?? highest]}
        xTitle="Started"
        yTitle={top ? "Share" : "Milliseconds"}
        height={200}
        hideFilter
        empty="No run has this figure"
      />
    </div>
  );
}
