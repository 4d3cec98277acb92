/** The editor of a document's original, where its text is kept here. */
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { KnowledgeDocument, ObjectState } from "../api/schema";
import { scopeOf } from "./DocumentHolds";
import { Loaded } from "./Loaded";
import { TextEditor } from "./TextEditor";
import { editAddress, isText, sourceOf, useOwnScope, useText } from "./TextQueries";

/** True for a document that its reader may edit here. */
export function useIsEditable(document: KnowledgeDocument): boolean {
  return useOwnScope() === scopeOf(document) && isText(document.key) && document.state === "current";
}

interface Props {
  document: KnowledgeDocument;
  onWritten: (state: ObjectState) => void;
  onCancel: () => void;
}

export function DocumentEdit({ document, onWritten, onCancel }: Props) {
  const source = sourceOf(document);
  const text = useText(source);
  return (
    <SpaceBetween size="m">
      <Header variant="h2" description={`${source} becomes a new version; all versions are kept.`}>
        Edit
      </Header>
      <Loaded query={text}>
        {(original) => <TextEditor source={source} original={original} onWritten={onWritten} onCancel={onCancel} />}
      </Loaded>
    </SpaceBetween>
  );
}

/** A link to the page that edits the file in its Git repository, and can propose the change as a pull request. */
export function AtOrigin({ document }: { document: KnowledgeDocument }) {
  const address = editAddress(document.source);
  if (!address) return null;
  return (
    <Link href={address} external externalIconAriaLabel="Opens in a new tab" rel="noopener noreferrer">
      Edit it in its repository, as a pull request
    </Link>
  );
}
