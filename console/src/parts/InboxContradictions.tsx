/** Documents that contradict each other: both passages side by side, and what can be done about them. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ContradictingPassage, DocumentContradiction } from "../api/schema";
import { Confirm } from "./Confirm";
import { useDelete } from "./DocumentChanges";
import { InboxDismissal } from "./InboxDismissal";
import { day, documentLink, Paged, Refresh } from "./InboxMore";
import { CONTRADICTIONS, useContradictions } from "./InboxQueries";
import { DocumentText } from "./Markdown";
import { ReviewDialog } from "./ReviewDialog";

type Side = "first" | "second";

interface Chosen {
  action: "dismiss" | "supersede" | "review";
  one: DocumentContradiction;
  side: Side;
}

const OTHER: Record<Side, Side> = { first: "second", second: "first" };

export function InboxContradictions() {
  const queries = useQueryClient();
  const query = useContradictions();
  const [chosen, setChosen] = useState<Chosen>();
  const close = (): void => {
    setChosen(undefined);
    void queries.invalidateQueries({ queryKey: CONTRADICTIONS });
  };
  return (
    <Paged query={query}>
      {(pages) => {
        const found = pages.flatMap((page) => page.contradictions);
        const [last] = pages.slice(-1);
        return (
          <SpaceBetween size="m">
            <Header
              variant="h2"
              counter={`(${found.length}${query.hasNextPage ? "+" : ""})`}
              description={`The same thing with another value, command or instruction, in ${last?.compared ?? 0} documents. ${last?.dismissed ?? 0} were marked as none.`}
              actions={<Refresh query={query} of="contradictions" />}
            >
              Contradictions
            </Header>
            {last?.more ? <StatusIndicator type="info">There are more documents than are compared at once.</StatusIndicator> : null}
            {found.length ? null : <Box textAlign="center">No two documents contradict each other</Box>}
            {found.map((one) => (
              <Pair key={one.contradictionId} one={one} onChoose={(action, side) => setChosen({ action, one, side })} />
            ))}
            {chosen ? <Dialog {...chosen} onClose={close} /> : null}
          </SpaceBetween>
        );
      }}
    </Paged>
  );
}

function Pair({ one, onChoose }: { one: DocumentContradiction; onChoose: (action: Chosen["action"], side: Side) => void }) {
  const sides: Side[] = ["first", "second"];
  return (
    <Container
      header={
        <Header
          variant="h3"
          description={one.reason}
          actions={
            <ButtonDropdown
              expandToViewport
              ariaLabel={`Actions for ${one.first.key} and ${one.second.key}`}
              items={[
                { id: "dismiss first", text: "Not a contradiction" },
                ...sides.map((side) => ({ id: `supersede ${side}`, text: `Superseded: ${one[side].key}` })),
                ...sides.map((side) => ({ id: `review ${side}`, text: `Mark as reviewed: ${one[side].key}` })),
              ]}
              onItemClick={({ detail }) => {
                const [action, side] = detail.id.split(" ");
                onChoose(action as Chosen["action"], side as Side);
              }}
            >
              Actions
            </ButtonDropdown>
          }
        >
          {one.first.title}
        </Header>
      }
    >
      <ColumnLayout columns={2} variant="text-grid">
        {sides.map((side) => (
          <Passage key={side} side={one[side]} />
        ))}
      </ColumnLayout>
    </Container>
  );
}

function Passage({ side }: { side: ContradictingPassage }) {
  return (
    <SpaceBetween size="xs">
      <Link href={documentLink(side.documentId)}>{side.title}</Link>
      <Box variant="small">
        {side.key}
        {side.section ? `, ${side.section}` : ""}, {side.owner || "nobody"}, updated {day(side.lastUpdated)}
        {side.reviewedAt ? `, reviewed ${day(side.reviewedAt)}` : ""}
      </Box>
      <Box fontWeight="bold">{side.statement}</Box>
      <DocumentText text={side.passage} />
      <Link href={`${documentLink(side.documentId)}?tab=edit`} ariaLabel={`Edit ${side.key}`}>
        Edit
      </Link>
    </SpaceBetween>
  );
}

function Dialog({ action, one, side, onClose }: Chosen & { onClose: () => void }) {
  const { documentId, title } = one[side];
  if (action === "dismiss") return <InboxDismissal one={one} onClose={onClose} />;
  if (action === "review") return <ReviewDialog documentId={documentId} title={title} onClose={onClose} />;
  return <Superseded left={one[side]} kept={one[OTHER[side]]} onClose={onClose} />;
}

function Superseded({ left, kept, onClose }: { left: ContradictingPassage; kept: ContradictingPassage; onClose: () => void }) {
  const remove = useDelete(left.documentId);
  return (
    <Confirm
      header="Mark as superseded?"
      action="Supersede and delete"
      isBusy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate(undefined, { onSuccess: onClose })}
      onDismiss={onClose}
    >
      <Alert type="warning">
        “{left.title}” ({left.key}) is deleted, and “{kept.title}” ({kept.key}) holds. Its versions stay readable, and can be restored.
      </Alert>
    </Confirm>
  );
}
