/** One document: its text, steps, versions, origin, outcomes and holds. */
import Alert from "@cloudscape-design/components/alert";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { ApiError } from "../api/client";
import type { DocumentVersions, ObjectState } from "../api/schema";
import { DocumentEdit, useIsEditable } from "../parts/DocumentEdit";
import { DocumentFound } from "../parts/DocumentFound";
import { DocumentHeader } from "../parts/DocumentHeader";
import { DocumentHolds } from "../parts/DocumentHolds";
import { DocumentOrigin } from "../parts/DocumentOrigin";
import { DocumentOutcomeTable } from "../parts/DocumentOutcomeTable";
import { DocumentOutline } from "../parts/DocumentOutline";
import { useDocument } from "../parts/DocumentQueries";
import { DocumentReader } from "../parts/DocumentReader";
import { DocumentSteps } from "../parts/DocumentSteps";
import { DocumentVersionList } from "../parts/DocumentVersionList";
import { Loaded } from "../parts/Loaded";

export default function Document() {
  const { documentId = "" } = useParams();
  return <Opened key={documentId} documentId={documentId} />;
}

function Opened({ documentId }: { documentId: string }) {
  const query = useDocument(documentId);
  if (query.error instanceof ApiError && query.error.status === 404) {
    return (
      <Alert type="error" header={query.data ? "This document is gone" : "There is no such document"}>
        {query.data ? `“${query.data.document.title}” was removed with all its versions. ` : `${query.error.message}. `}
        <Link href="#/documents">See all documents</Link>
      </Alert>
    );
  }
  return <Loaded query={query}>{(found) => <Found found={found} />}</Loaded>;
}

function Found({ found: { document, versions } }: { found: DocumentVersions }) {
  const [params, setParams] = useSearchParams();
  const navigate = useNavigate();
  const show = (tab: string): void => setParams({ tab }, { replace: true });
  const newest = versions[0] ?? document;
  const { documentId } = document;
  const tab = params.get("tab") ?? "text";
  const isEditable = useIsEditable(document);
  const [isWaiting, setWaiting] = useState(false);
  const written = (state: ObjectState): void => {
    setWaiting(state.state === "waiting");
    void navigate(`/documents/${state.documentId || documentId}?tab=text`);
  };
  const [isOpened, setOpened] = useState(false);
  const [edits, setEdits] = useState(0);
  // The editor stays once it is opened, also if the document is replaced meanwhile: what is being written is kept.
  if (tab === "edit" && !isOpened) setOpened(true);
  const cancel = (): void => {
    setEdits(edits + 1);
    show("text");
  };
  const edit = <DocumentEdit key={edits} document={document} onWritten={written} onCancel={cancel} />;
  return (
    <SpaceBetween size="l">
      {isWaiting ? <Alert type="info">Your text is stored, and waits to be ingested as a new version.</Alert> : null}
      <DocumentHeader
        document={document}
        newest={newest}
        showVersions={() => show("versions")}
        edit={isEditable && tab !== "edit" ? () => show("edit") : undefined}
      />
      <Tabs
        ariaLabel="Parts of the document"
        i18nStrings={{ scrollLeftAriaLabel: "Scroll left", scrollRightAriaLabel: "Scroll right" }}
        activeTabId={tab}
        onChange={({ detail }) => show(detail.activeTabId)}
        tabs={[
          { id: "text", label: "Text", content: <DocumentReader documentId={documentId} /> },
          ...(isEditable || isOpened ? [{ id: "edit", label: "Edit", content: edit, contentRenderStrategy: "lazy" as const }] : []),
          ...(document.state === "deleted" ? [] : ofCurrent(documentId)),
          { id: "versions", label: "Versions", content: <DocumentVersionList document={document} newest={newest} /> },
          { id: "origin", label: "Where it came from", content: <DocumentOrigin document={document} /> },
          { id: "outcomes", label: "Outcomes", content: <DocumentOutcomeTable documentId={documentId} /> },
          { id: "found", label: "Who found it", content: <DocumentFound documentId={documentId} /> },
          { id: "holds", label: "Legal holds", content: <DocumentHolds document={document} /> },
        ]}
      />
    </SpaceBetween>
  );
}

/** Tabs that the server reads from the current version: there is none once a document is deleted. */
const ofCurrent = (documentId: string) => [
  { id: "outline", label: "Outline", content: <DocumentOutline documentId={documentId} /> },
  { id: "steps", label: "Steps", content: <DocumentSteps documentId={documentId} /> },
];
