/** What changed upstream or downstream of a thing. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { GraphAnswer, Row } from "../api/schema";
import { GraphProof } from "./GraphProof";
import { dayOf, nameOf, Relation, relationOf, ThingLink } from "./GraphTerms";
import { Loaded } from "./Loaded";

type Side = "upstream" | "downstream";

export function GraphChanges({ thing }: { thing: string }) {
  const [side, setSide] = useState<Side>("upstream");
  const [text, setText] = useState("");
  const [since, setSince] = useState("");
  const found = useQuery({
    queryKey: ["graph", "changes", thing, side, since],
    queryFn: () =>
      data(api.GET("/graph/changes", { params: { query: { ref: thing, side, ...(since ? { since } : {}) } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <SpaceBetween size="m">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setSince(text.trim());
        }}
      >
        <SpaceBetween size="s" direction="horizontal" alignItems="end">
          <SegmentedControl
            label="Side"
            selectedId={side}
            options={[
              { id: "upstream", text: "Upstream: what it depends on" },
              { id: "downstream", text: "Downstream: what depends on it" },
            ]}
            onChange={({ detail }) => setSide(detail.selectedId === "downstream" ? "downstream" : "upstream")}
          />
          <FormField label="Changed since" description="A day, or 12h, 1d, 2w ago; empty for all">
            <Input value={text} placeholder="1d" onChange={({ detail }) => setText(detail.value)} />
          </FormField>
          <Button formAction="submit">Show</Button>
        </SpaceBetween>
      </form>
      <Loaded query={found}>{(answer) => <Changes answer={answer} />}</Loaded>
    </SpaceBetween>
  );
}

function Changes({ answer }: { answer: GraphAnswer }) {
  const rows = answer.rows ?? [];
  return (
    <Table
      items={rows}
      wrapLines
      ariaLabels={{ tableLabel: "Changes" }}
      header={
        <Header variant="h3" counter={`(${rows.length}${answer.cut ? ", there may be more" : ""})`} description={answer.explanation}>
          Changes
        </Header>
      }
      empty="No change is known"
      columnDefinitions={[
        { id: "change", header: "Change", isRowHeader: true, cell: (row) => <ThingLink thing={row.key} /> },
        { id: "at", header: "When", minWidth: 130, cell: (row) => dayOf(row.at) },
        { id: "values", header: "Facts", cell: (row) => <Values row={row} /> },
        { id: "path", header: "Because", minWidth: 300, cell: (row) => <Because row={row} answer={answer} /> },
      ]}
    />
  );
}

function Values({ row }: { row: Row }) {
  return Object.entries(row.values).map(([name, value]) => (
    <div key={name}>
      {relationOf(name)}: {String(value)}
    </div>
  ));
}

function Because({ row, answer }: { row: Row; answer: GraphAnswer }) {
  if (!row.path?.length) return <Box variant="small">itself</Box>;
  return row.path.map((edge) => (
    <div key={`${edge.from} ${edge.edgeType} ${edge.to}`}>
      <Relation step={edge} />
      <GraphProof
        of={`${nameOf(edge.from)} ${relationOf(edge.edgeType)} ${nameOf(edge.to)}`}
        evidence={edge.evidence}
        passages={answer.passages}
      />
    </div>
  ));
}
