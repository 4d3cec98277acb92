/** The relations of a thing, the newest first, each with its proof. */
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Table from "@cloudscape-design/components/table";
import type { Edge, Passage } from "../api/schema";
import { GraphProof } from "./GraphProof";
import { dayOf, nameOf, relationOf, ThingLink, type Names } from "./GraphTerms";

interface Props {
  /** The thing whose relations these are; without it, both ends are shown. */
  of?: string;
  title: string;
  level?: "h2" | "h3";
  edges: Edge[];
  passages: Passage[] | undefined;
  names?: Names;
  empty?: string;
  more?: boolean;
  isBusy?: boolean;
  onMore?: () => void;
}

export function GraphRelations({ of, title, level = "h3", edges, passages, names, empty, more, isBusy, onMore }: Props) {
  return (
    <Table
      items={edges}
      wrapLines
      ariaLabels={{ tableLabel: title }}
      header={
        <Header variant={level} counter={`(${edges.length}${more ? ", and more" : ""})`}>
          {title}
        </Header>
      }
      empty={empty ?? "No relations"}
      footer={
        more && onMore ? (
          <Button loading={isBusy} onClick={onMore}>
            Load more
          </Button>
        ) : null
      }
      columnDefinitions={[
        { id: "from", header: "From", cell: (edge) => <End thing={edge.from} of={of} names={names} /> },
        { id: "relation", header: "Relation", isRowHeader: true, cell: (edge) => relationOf(edge.edgeType) },
        { id: "to", header: "To", cell: (edge) => <End thing={edge.to} of={of} names={names} /> },
        { id: "at", header: "As of", minWidth: 130, cell: (edge) => dayOf(edge.at) },
        { id: "confidence", header: "Reliability", cell: (edge) => edge.confidence.toFixed(2) },
        { id: "proof", header: "Proof", minWidth: 260, cell: (edge) => <Proof edge={edge} names={names} passages={passages} /> },
      ]}
    />
  );
}

function End({ thing, of, names }: { thing: string; of?: string; names?: Names }) {
  return thing === of ? <strong>{nameOf(thing, names)}</strong> : <ThingLink thing={thing} names={names} />;
}

function Proof({ edge, names, passages }: { edge: Edge; names?: Names; passages: Passage[] | undefined }) {
  const label = `${nameOf(edge.from, names)} ${relationOf(edge.edgeType)} ${nameOf(edge.to, names)}`;
  return <GraphProof of={label} evidence={edge.evidence} passages={passages} />;
}
