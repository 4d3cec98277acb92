/** Legal holds, which forbid the removal of documents. */
import Header from "@cloudscape-design/components/header";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Hold } from "../api/schema";
import { Loaded } from "./Loaded";

export function HealthHolds() {
  const [lifted, setLifted] = useState(false);
  const holds = useQuery({
    queryKey: ["holds", lifted],
    queryFn: () => data(api.GET("/holds", { params: { query: { lifted } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <SpaceBetween size="m">
      <SegmentedControl
        label="Which holds"
        selectedId={lifted ? "lifted" : "current"}
        options={[
          { id: "current", text: "In force" },
          { id: "lifted", text: "Lifted" },
        ]}
        onChange={({ detail }) => setLifted(detail.selectedId === "lifted")}
      />
      <Loaded query={holds}>{(found) => <Listed holds={found.holds} lifted={lifted} />}</Loaded>
    </SpaceBetween>
  );
}

function Listed({ holds, lifted }: { holds: Hold[]; lifted: boolean }) {
  const day = (at: string): string => at.slice(0, 16).replace("T", " ");
  return (
    <Table
      items={holds}
      trackBy="holdId"
      wrapLines
      ariaLabels={{ tableLabel: "Legal holds" }}
      header={
        <Header variant="h2" counter={`(${holds.length})`}>
          Legal holds
        </Header>
      }
      empty={lifted ? "No hold was lifted" : "No hold is in force"}
      columnDefinitions={[
        { id: "reason", header: "Reason", isRowHeader: true, cell: (one) => one.reason },
        { id: "on", header: "On", cell: (one) => heldOf(one) },
        { id: "within", header: "Within", cell: (one) => one.within || "all scopes" },
        { id: "by", header: "By", cell: (one) => one.by || "unknown" },
        { id: "since", header: "Since", cell: (one) => day(one.since) },
        ...(lifted
          ? [{ id: "lifted", header: "Lifted", cell: (one: Hold) => `${day(one.lifted)} by ${one.liftedBy || "unknown"}` }]
          : []),
        { id: "id", header: "Id", cell: (one) => one.holdId },
      ]}
    />
  );
}

const heldOf = ({ source, category }: Hold): string =>
  source ? `the document ${source}` : category ? `the category ${category}` : "all documents";
