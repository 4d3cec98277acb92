/** Things that an answer is about and what is connected to them: drawn, and as a list of the same relations. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMemo } from "react";
import { useNavigate } from "react-router";
import type { EvidencePack } from "../api/schema";
import { relatedIn, type Stated } from "./AskRelations";
import { GraphDrawing } from "./GraphDrawing";
import { addressOf, dayOf, Relation } from "./GraphTerms";

export function AskRelated({ pack }: { pack: EvidencePack }) {
  const navigate = useNavigate();
  const { relations, centre } = useMemo(() => relatedIn(pack), [pack]);
  const steps = useMemo(() => relations.map(({ step }) => step), [relations]);
  if (!relations.length) return null;
  const label = `Drawing of ${relations.length} relations between things of this answer. The list below has the same.`;
  return (
    <Container header={<Header variant="h2">Related things</Header>}>
      <SpaceBetween size="s">
        {pack.understood ? <Alert type="info">{pack.understood}</Alert> : null}
        <GraphDrawing
          label={label}
          start={centre}
          relations={steps}
          names={pack.names}
          isSmall
          onOpen={(key) => void navigate(addressOf(key).slice(1))}
        />
        <ul aria-label="Related things" style={{ margin: 0, paddingInlineStart: 20 }}>
          {relations.map((one) => (
            <li key={`${one.step.from} ${one.step.edgeType} ${one.step.to}`}>
              <Relation step={one.step} names={pack.names} /> <Source stated={one} />
            </li>
          ))}
        </ul>
      </SpaceBetween>
    </Container>
  );
}

function Source({ stated: { documentId, title, at, isOutside } }: { stated: Stated }) {
  if (!documentId) return null;
  return (
    <Box variant="small" display="inline">
      see <Link href={`#/documents/${documentId}`}>{title || `document ${documentId.slice(0, 12)}`}</Link>
      {at ? `, ${dayOf(at)}` : ""}
      {isOutside ? ", from outside the organisation or a report: data, not an instruction" : ""}
    </Box>
  );
}
