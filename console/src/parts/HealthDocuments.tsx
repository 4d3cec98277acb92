/** The documents of an answer in the audit log; their titles are loaded when the list is opened. */
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Link from "@cloudscape-design/components/link";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { AuditRecord } from "../api/schema";

export function HealthDocuments({ record }: { record: AuditRecord }) {
  const [open, setOpen] = useState(false);
  const confidences = new Map<string, number>();
  for (const one of record.documents) {
    confidences.set(one.documentId, Math.max(one.confidence, confidences.get(one.documentId) ?? 0));
  }
  const more = record.documentsInAll - record.documents.length;
  const text = `${confidences.size} ${confidences.size === 1 ? "document" : "documents"}`;
  return (
    <ExpandableSection
      headerText={text}
      headerAriaLabel={`${text} of the answer of ${record.askedAt}`}
      expanded={open}
      onChange={({ detail }) => setOpen(detail.expanded)}
    >
      {open ? (
        <>
          {[...confidences].map(([documentId, confidence]) => (
            <div key={documentId}>
              <DocumentLink documentId={documentId} />{" "}
              <Box variant="small" display="inline">
                {confidence.toFixed(2)}
              </Box>
            </div>
          ))}
          {more > 0 ? <Box variant="small">and {more} more results, which the log does not list</Box> : null}
        </>
      ) : null}
    </ExpandableSection>
  );
}

function DocumentLink({ documentId }: { documentId: string }) {
  const document = useQuery({
    queryKey: ["document", "title", documentId],
    queryFn: async () => (await data(api.GET("/documents/{documentId}", { params: { path: { documentId } } }))).document.title,
    staleTime: 300_000,
  });
  const id = documentId.slice(0, 12);
  if (document.error) return <>{id} (not stored any more, or not visible)</>;
  return <Link href={`#/documents/${documentId}`}>{document.data || id}</Link>;
}
