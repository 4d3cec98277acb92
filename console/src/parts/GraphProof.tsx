/** The evidence of a thing or a relation: the document that states it, and the passage. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import type { GraphEvidence, Passage } from "../api/schema";
import { dayOf } from "./GraphTerms";
import { DocumentText } from "./Markdown";
import { Untrusted } from "./marks";

interface Props {
  /** The thing or relation, for the label of the button. */
  of: string;
  evidence: GraphEvidence[];
  passages: Passage[] | undefined;
}

export function GraphProof({ of, evidence, passages = [] }: Props) {
  const [open, setOpen] = useState(false);
  if (!evidence.length) return <Box variant="small">no evidence is stored</Box>;
  return (
    <ExpandableSection
      headerText={`Proof (${evidence.length})`}
      headerAriaLabel={`Proof of ${of}`}
      expanded={open}
      onChange={({ detail }) => setOpen(detail.expanded)}
    >
      {open ? (
        <SpaceBetween size="s">
          {evidence.map((one, index) => (
            <Evidence key={`${one.documentId} ${index}`} evidence={one} passages={passages} />
          ))}
        </SpaceBetween>
      ) : null}
    </ExpandableSection>
  );
}

function Evidence({ evidence, passages }: { evidence: GraphEvidence; passages: Passage[] }) {
  const chunks = new Set(evidence.chunkIds);
  const shown = passages.filter((one) => chunks.has(one.chunkId));
  const title = passages.find((one) => one.documentId === evidence.documentId)?.title;
  const facts = [
    dayOf(evidence.at),
    evidence.tier,
    evidence.rule ? `by ${evidence.rule}` : "",
    evidence.confidence === undefined ? "" : `reliability ${evidence.confidence.toFixed(2)}`,
    evidence.stated?.length ? `written as ${evidence.stated.join(", ")}` : "",
  ];
  return (
    <div>
      <Link href={`#/documents/${evidence.documentId}`}>{title ?? `document ${evidence.documentId.slice(0, 12)}`}</Link>{" "}
      <Box variant="small" display="inline">
        {facts.filter(Boolean).join(", ")}
      </Box>
      {shown.map((passage) => (
        <PassageText key={passage.chunkId} passage={passage} />
      ))}
    </div>
  );
}

function PassageText({ passage }: { passage: Passage }) {
  return (
    <div>
      {passage.section ? <Box variant="small">{passage.section}</Box> : null}
      <Untrusted of={passage} />
      {passage.flags?.map((flag) => (
        <Alert key={flag} type="warning">
          {flag.replaceAll("_", " ")}
        </Alert>
      ))}
      <DocumentText text={passage.content} />
    </div>
  );
}
