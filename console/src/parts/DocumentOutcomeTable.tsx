/** Recorded outcomes of a document, and of its sections. */
import Box from "@cloudscape-design/components/box";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Counts, DocumentOutcomes } from "../api/schema";
import { minute } from "./DocumentMarks";
import { documentKey } from "./DocumentQueries";
import { Loaded } from "./Loaded";

interface Row {
  name: string;
  counts: Counts;
}

const COLUMNS: TableProps.ColumnDefinition<Row>[] = [
  { id: "name", header: "Of", isRowHeader: true, cell: ({ name }) => name },
  { id: "resolved", header: "Resolved it", cell: ({ counts }) => counts.resolved ?? 0 },
  { id: "none", header: "No effect", cell: ({ counts }) => counts.noEffect ?? 0 },
  { id: "worse", header: "Made it worse", cell: ({ counts }) => counts.madeWorse ?? 0 },
];

export function DocumentOutcomeTable({ documentId }: { documentId: string }) {
  const query = useQuery({
    queryKey: [...documentKey(documentId), "outcomes"],
    queryFn: () => data(api.GET("/documents/{documentId}/outcomes", { params: { path: { documentId } } })),
  });
  return <Loaded query={query}>{(outcomes) => <Found outcomes={outcomes} />}</Loaded>;
}

function Found({ outcomes }: { outcomes: DocumentOutcomes }) {
  const { explanation, factor = 1, updatedAt } = outcomes;
  return (
    <SpaceBetween size="s">
      <Box>{explanation}</Box>
      <Box>
        Scores of this document are multiplied by {factor.toFixed(2)}.{updatedAt ? ` Last outcome: ${minute(updatedAt)}.` : ""}
      </Box>
      <Table
        variant="embedded"
        wrapLines
        header={<Header variant="h2">Outcomes</Header>}
        columnDefinitions={COLUMNS}
        items={rowsOf(outcomes)}
        trackBy="name"
        ariaLabels={{ tableLabel: "Outcomes" }}
      />
    </SpaceBetween>
  );
}

function rowsOf({ now = NONE, earlier = NONE, sections = {} }: DocumentOutcomes): Row[] {
  const bySection = Object.entries(sections).flatMap(([heading, tally]) => [
    { name: `Section ${heading || "before the first heading"}`, counts: tally.now ?? NONE },
    { name: `Section ${heading || "before the first heading"}, earlier versions`, counts: tally.earlier ?? NONE },
  ]);
  return [
    { name: "This version", counts: now },
    { name: "Earlier versions (each counts half)", counts: earlier },
    ...bySection.filter(({ counts }) => Object.values(counts).some(Boolean)),
  ];
}

const NONE: Counts = { resolved: 0, noEffect: 0, madeWorse: 0 };
