/** The facts of a document, its warnings, and its deletion. */
import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs, { type KeyValuePairsProps } from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import type { KnowledgeDocument } from "../api/schema";
import { useDelete } from "./DocumentChanges";
import { Confirm } from "./Confirm";
import { AtOrigin } from "./DocumentEdit";
import { covers, scopeOf, useHolds } from "./DocumentHolds";
import { day, minute, StateMark, Trust } from "./DocumentMarks";
import { Untrusted } from "./marks";
import { ReviewDialog } from "./ReviewDialog";
import { useOwnScope } from "./TextQueries";

interface Props {
  document: KnowledgeDocument;
  newest: KnowledgeDocument;
  showVersions: () => void;
  /** Opens the editor; left out where there is none. */
  edit?: (() => void) | undefined;
}

export function DocumentHeader({ document, newest, showVersions, edit }: Props) {
  const [asked, setAsked] = useState(false);
  const [reviewing, setReviewing] = useState(false);
  const isOwn = useOwnScope() === scopeOf(document);
  const remove = useDelete(document.documentId);
  const held = useHolds(false).data?.holds.some((hold) => covers(hold, document));
  const close = (): void => {
    remove.reset();
    setAsked(false);
  };
  return (
    <SpaceBetween size="m">
      <StateAlert document={document} newest={newest} showVersions={showVersions} />
      {remove.data === false ? <Alert type="info">The deletion is accepted, and not done yet.</Alert> : null}
      <Container
        header={
          <Header
            variant="h1"
            info={held ? <Badge color="red">legal hold</Badge> : undefined}
            actions={
              document.state === "current" ? (
                <SpaceBetween size="xs" direction="horizontal">
                  {edit ? <Button onClick={edit}>Edit</Button> : null}
                  {isOwn ? <Button onClick={() => setReviewing(true)}>Mark as reviewed</Button> : null}
                  <Button onClick={() => setAsked(true)}>Delete</Button>
                </SpaceBetween>
              ) : undefined
            }
          >
            {document.title}
          </Header>
        }
      >
        <SpaceBetween size="m">
          <Facts document={document} />
          <Warnings document={document} />
          {document.state === "current" ? <AtOrigin document={document} /> : null}
        </SpaceBetween>
      </Container>
      {reviewing ? (
        <ReviewDialog documentId={document.documentId} title={document.title} onClose={() => setReviewing(false)} />
      ) : null}
      {asked ? (
        <Confirm
          header="Delete this document?"
          action="Delete"
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate(undefined, { onSuccess: () => setAsked(false) })}
          onDismiss={close}
        >
          <div>
            “{document.title}” will no longer be found. Its versions stay readable here, and can be restored.
          </div>
        </Confirm>
      ) : null}
    </SpaceBetween>
  );
}

function StateAlert({ document, newest, showVersions }: Props) {
  if (document.state === "deleted") {
    return (
      <Alert type="error" header="This document was deleted" action={<Button onClick={showVersions}>See its versions</Button>}>
        On {minute(document.supersededAt)}. It is no longer found; its text stays readable, and a version can be restored.
      </Alert>
    );
  }
  if (document.state !== "superseded") return null;
  return (
    <Alert type="warning" header={`Version ${document.version} was replaced on ${minute(document.supersededAt)}`}>
      {newest.state === "current" ? (
        <Link href={`#/documents/${newest.documentId}`}>Open the current version {newest.version}</Link>
      ) : (
        "The document was deleted later."
      )}
    </Alert>
  );
}

function Facts({ document }: { document: KnowledgeDocument }) {
  return (
    <SpaceBetween size="s">
      <KeyValuePairs columns={4} items={mainFacts(document)} />
      <ExpandableSection headerText="More facts">
        <KeyValuePairs columns={4} items={otherFacts(document)} />
      </ExpandableSection>
    </SpaceBetween>
  );
}

const mainFacts = (document: KnowledgeDocument): KeyValuePairsProps.Item[] => [
  { label: "Category", value: document.category },
  { label: "Owner", value: document.owner || "none" },
  { label: "Review by", value: <Review document={document} /> },
  { label: "State", value: <StateMark state={document.state ?? "current"} /> },
  { label: "Version", value: document.version },
  { label: "Trust", value: <Trust document={document} /> },
  { label: "Updated", value: day(document.metadata.lastUpdated) },
  { label: "Expires", value: day(document.expires) },
];

const otherFacts = (document: KnowledgeDocument): KeyValuePairsProps.Item[] => [
  { label: "Author", value: document.metadata.author || "–" },
  { label: "Its author's version", value: document.metadata.version || "–" },
  { label: "Services", value: document.services?.join(", ") || "–" },
  { label: "Severity", value: document.severity || "–" },
  { label: "Tags", value: document.tags?.join(", ") || "–" },
  { label: "Language", value: document.language },
  { label: "Source", value: <Source address={document.source} /> },
  { label: "Name in the corpus", value: <Box variant="code">{document.key}</Box> },
  { label: "Passages", value: document.chunkCount ?? 0 },
  { label: "Tokens", value: document.tokenCount ?? 0 },
  { label: "Id", value: <Box variant="code">{document.documentId}</Box> },
];

function Review({ document: { reviewBy: due, reviewedAt } }: { document: KnowledgeDocument }) {
  if (!due) return "none is set";
  const isOverdue = due.slice(0, 10) < new Date().toISOString().slice(0, 10);
  return (
    <span>
      {day(due)} {isOverdue ? <Badge color="red">overdue</Badge> : null}
      {reviewedAt ? <Box variant="small">reviewed on {day(reviewedAt)}</Box> : null}
    </span>
  );
}

/** An address that a browser can open as a link, anything else as text. */
function Source({ address }: { address: string }) {
  if (!/^https?:\/\//i.test(address)) return address;
  return (
    <Link href={address} external externalIconAriaLabel="Opens in a new tab">
      {address}
    </Link>
  );
}

function Warnings({ document }: { document: KnowledgeDocument }) {
  return (
    <SpaceBetween size="xs">
      <Untrusted of={document} />
      {document.remarks?.map(({ kind, text }) => (
        <Alert key={`${kind} ${text}`} type="warning" header={kind.replaceAll("_", " ")}>
          {text}
        </Alert>
      ))}
    </SpaceBetween>
  );
}
