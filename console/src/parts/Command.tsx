/** A command of a document: its text, what it does, and a button that copies it. */
import Box from "@cloudscape-design/components/box";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import type { ShownCommand } from "../api/schema";
import { Effect } from "./marks";

export function Command({ command }: { command: ShownCommand }) {
  return (
    <div className="opx-command">
      <Effect effect={command.effect ?? "unknown"} />
      <div style={{ flex: 1, minWidth: 0 }}>
        <pre tabIndex={0}>{command.text}</pre>
        {command.placeholders?.length ? (
          <Box variant="small">fill in: {command.placeholders.join(", ")}</Box>
        ) : null}
        {command.undo ? <Box variant="small">undo: {command.undo}</Box> : null}
      </div>
      <CopyToClipboard
        variant="icon"
        copyButtonAriaLabel="Copy the command"
        copySuccessText="Copied"
        copyErrorText="The browser didn't allow it"
        textToCopy={command.text}
      />
    </div>
  );
}
