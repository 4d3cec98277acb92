/** An area to drop files and folders on, with buttons that do the same. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { type DragEvent, useRef, useState } from "react";
import { chosen, type ChosenFile, dropped } from "./UploadFiles";

export function UploadDrop({ onFiles }: { onFiles: (files: ChosenFile[]) => void }) {
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState("");
  const take = (files: ChosenFile[]): void => {
    setProblem(files.length ? "" : "There is no file in it that is not hidden.");
    if (files.length) onFiles(files);
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    dropped(event.dataTransfer).then(take, () => setProblem("The browser couldn't read what was dropped."));
  };
  return (
    <SpaceBetween size="s">
      <div
        data-testid="drop"
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
        style={{ border: `2px ${over ? "solid" : "dashed"} currentcolor`, borderRadius: 8, padding: 24, textAlign: "center" }}
      >
        <SpaceBetween size="s" alignItems="center">
          <Box>Drop files or folders here</Box>
          <SpaceBetween size="xs" direction="horizontal">
            <Chooser text="Choose files" onFiles={take} />
            <Chooser text="Choose a folder" isFolder onFiles={take} />
          </SpaceBetween>
        </SpaceBetween>
      </div>
      {problem ? <Alert type="warning">{problem}</Alert> : null}
    </SpaceBetween>
  );
}

interface ChooserProps {
  text: string;
  isFolder?: boolean;
  onFiles: (files: ChosenFile[]) => void;
}

function Chooser({ text, isFolder, onFiles }: ChooserProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button iconName={isFolder ? "folder" : "upload"} onClick={() => input.current?.click()}>
        {text}
      </Button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        aria-label={text}
        {...(isFolder ? { webkitdirectory: "" } : {})}
        onChange={({ target }) => {
          onFiles(chosen(target.files ?? []));
          target.value = ""; // the same files can be chosen again
        }}
      />
    </>
  );
}
