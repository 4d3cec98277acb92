/** Sections of the current version. One that is opened is read from the server. */
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import type { SectionView } from "../api/schema";
import { DocumentNotes } from "./DocumentNotes";
import { DocumentPaged } from "./DocumentPaged";
import { usePart } from "./DocumentQueries";
import { DocumentText } from "./Markdown";

export function DocumentOutline({ documentId }: { documentId: string }) {
  const query = usePart(documentId, "outline");
  return (
    <DocumentPaged query={query}>
      {(pages) => {
        const sections = pages.flatMap((page) => page.sections ?? []).filter(({ heading }) => heading);
        return (
          <SpaceBetween size="s">
            <Header variant="h2" description="Open a section to read it">
              Outline of the current version
            </Header>
            <DocumentNotes notes={pages[0].notes} />
            {sections.length ? null : <Box>The server knows no headings of it.</Box>}
            {sections.map((section, index) => (
              <Section key={`${index} ${section.heading}`} documentId={documentId} section={section} />
            ))}
          </SpaceBetween>
        );
      }}
    </DocumentPaged>
  );
}

function Section({ documentId, section }: { documentId: string; section: SectionView }) {
  const [open, setOpen] = useState(false);
  const { heading, level, kind, tokens = 0 } = section;
  return (
    <div style={{ paddingInlineStart: 16 * Math.min(Math.max(0, level - 2), 4) }}>
      <ExpandableSection
        headerText={heading}
        headerDescription={`${kind === "other" ? "" : `${kind}, `}about ${tokens} tokens`}
        headingTagOverride="h3"
        expanded={open}
        onChange={({ detail }) => setOpen(detail.expanded)}
      >
        {open ? <SectionText documentId={documentId} heading={heading} /> : null}
      </ExpandableSection>
    </div>
  );
}

function SectionText({ documentId, heading }: { documentId: string; heading: string }) {
  const query = usePart(documentId, heading);
  return (
    <DocumentPaged query={query}>
      {(pages) => (
        <SpaceBetween size="s">
          <DocumentNotes notes={pages[0].notes} />
          <DocumentText text={pages.map(({ content }) => content ?? "").join("\n\n")} />
        </SpaceBetween>
      )}
    </DocumentPaged>
  );
}
