/** Lines of a unified diff. The sign before a line says what its colour does. */
import Box from "@cloudscape-design/components/box";
import type { CSSProperties } from "react";
import type { VersionDiff } from "../api/schema";

const STYLES: Record<string, CSSProperties> = {
  "+": { background: "#2ea04333" },
  "-": { background: "#f8514933" },
  "@": { opacity: 0.8, fontStyle: "italic" },
};

export function DocumentDiffLines({ diff }: { diff: VersionDiff }) {
  if (!diff.diff) return <Box>The texts are equal.</Box>;
  const lines = diff.diff.replace(/\n$/, "").split("\n").slice(2); // without the two names
  return (
    <div>
      <Box variant="h3">
        Lines: {diff.added} added, {diff.removed} removed
      </Box>
      {diff.cut ? <Box variant="small">It is longer than what is shown.</Box> : null}
      <pre className="opx-lines" tabIndex={0} aria-label="Changed lines">
        {lines.map((line, index) => (
          <div key={index} style={STYLES[line[0] ?? ""]}>
            {line || " "}
          </div>
        ))}
      </pre>
    </div>
  );
}
