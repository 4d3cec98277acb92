/** Things around a thing: drawn, and as tables. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Neighbourhood, ReachedNode } from "../api/schema";
import { GraphDrawing } from "./GraphDrawing";
import { GraphRelations } from "./GraphRelations";
import { nameOf, Relation, ThingLink } from "./GraphTerms";
import { Loaded } from "./Loaded";

const DIRECTIONS = [
  { value: "both", label: "Both ways" },
  { value: "out", label: "Along relations (what it depends on)" },
  { value: "in", label: "Against relations (what depends on it)" },
] as const;
type Direction = (typeof DIRECTIONS)[number]["value"];

const FEW = 60;
/** Things that a drawing can show so that their names are read. */

const MOST = 500;
/** Things that the API gives at most. */

interface Choice {
  hops: number;
  direction: Direction;
  types: string;
  since: string;
}

interface Props {
  thing: string;
  onOpen: (key: string) => void;
}

export function GraphNeighbours({ thing, onOpen }: Props) {
  const [choice, setChoice] = useState<Choice>({ hops: 1, direction: "both", types: "", since: "" });
  const [limit, setLimit] = useState(FEW);
  const found = useQuery({
    queryKey: ["graph", "neighbours", thing, choice, limit],
    queryFn: () => data(api.GET("/graph/neighbours", { params: { query: { ref: thing, limit, ...parameters(choice) } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <SpaceBetween size="m">
      <Choices choice={choice} onChoose={setChoice} />
      <Loaded query={found}>
        {(around) => (
          <SpaceBetween size="m">
            <Around around={around} onOpen={onOpen} />
            {(around.cut?.length ?? 0) > 0 ? (
              <SpaceBetween size="xs" direction="horizontal" alignItems="center">
                <Box>Not all relations were followed of {around.cut?.map((key) => nameOf(key, around.names)).join(", ")}.</Box>
                {limit < MOST ? (
                  <Button loading={found.isFetching} onClick={() => setLimit(MOST)}>
                    Load more
                  </Button>
                ) : null}
              </SpaceBetween>
            ) : null}
          </SpaceBetween>
        )}
      </Loaded>
    </SpaceBetween>
  );
}

function parameters({ hops, direction, types, since }: Choice) {
  const type = types
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
  return { hops, direction, ...(type.length ? { type } : {}), ...(since.trim() ? { since: since.trim() } : {}) };
}

function Choices({ choice, onChoose }: { choice: Choice; onChoose: (choice: Choice) => void }) {
  const [types, setTypes] = useState(choice.types);
  const [since, setSince] = useState(choice.since);
  const hops = [1, 2, 3].map((count) => ({ value: String(count), label: count === 1 ? "1 relation" : `${count} relations` }));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onChoose({ ...choice, types, since });
      }}
    >
      <SpaceBetween size="s" direction="horizontal" alignItems="end">
        <FormField label="Distance">
          <Select
            options={hops}
            selectedOption={hops[choice.hops - 1] ?? null}
            onChange={({ detail }) => onChoose({ ...choice, hops: Number(detail.selectedOption.value) })}
          />
        </FormField>
        <FormField label="Direction">
          <Select
            options={DIRECTIONS}
            selectedOption={DIRECTIONS.find((one) => one.value === choice.direction) ?? null}
            onChange={({ detail }) => {
              const chosen = DIRECTIONS.find((one) => one.value === detail.selectedOption.value);
              if (chosen) onChoose({ ...choice, direction: chosen.value });
            }}
          />
        </FormField>
        <FormField label="Relations" description="Separated by commas; empty for all">
          <Input value={types} placeholder="depends_on, affects" onChange={({ detail }) => setTypes(detail.value)} />
        </FormField>
        <FormField label="True since" description="A day, or 12h, 1d, 2w ago">
          <Input value={since} placeholder="2w" onChange={({ detail }) => setSince(detail.value)} />
        </FormField>
        <Button formAction="submit">Show</Button>
      </SpaceBetween>
    </form>
  );
}

function Around({ around, onOpen }: { around: Neighbourhood; onOpen: (key: string) => void }) {
  const others = (around.reached ?? []).filter((one) => one.distance > 0);
  const edges = around.edges ?? [];
  const start = nameOf(around.start, around.names);
  return (
    <SpaceBetween size="m">
      {around.contradicting?.map((pair, index) => (
        <Alert key={index} type="warning" header="These can't both hold">
          {pair.map((step) => (
            <div key={`${step.from} ${step.edgeType} ${step.to}`}>
              <Relation step={step} names={around.names} />
            </div>
          ))}
        </Alert>
      ))}
      {others.length ? (
        <GraphDrawing
          label={`Drawing of ${start} and ${others.length} things around it. The tables below list the same.`}
          start={around.start}
          relations={edges}
          names={around.names}
          onOpen={onOpen}
        />
      ) : null}
      <Reached around={around} others={others} />
      <GraphRelations title="Relations between them" edges={edges} passages={around.passages} names={around.names} />
    </SpaceBetween>
  );
}

function Reached({ around, others }: { around: Neighbourhood; others: ReachedNode[] }) {
  return (
    <Table
      items={others}
      trackBy="key"
      wrapLines
      ariaLabels={{ tableLabel: "Things around it" }}
      header={
        <Header variant="h3" counter={`(${others.length})`}>
          Things around it
        </Header>
      }
      empty="Nothing is related to it in this way"
      columnDefinitions={[
        { id: "thing", header: "Thing", isRowHeader: true, cell: (one) => <ThingLink thing={one.key} names={around.names} /> },
        { id: "distance", header: "Distance", cell: (one) => one.distance },
        {
          id: "path",
          header: "Reached by",
          cell: (one) =>
            one.path?.map((step) => (
              <div key={`${step.from} ${step.edgeType} ${step.to}`}>
                <Relation step={step} names={around.names} />
              </div>
            )),
        },
      ]}
    />
  );
}
