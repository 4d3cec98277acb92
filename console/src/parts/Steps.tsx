/** The steps of a procedure, to tick while working: warnings stand before their step. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Checkbox from "@cloudscape-design/components/checkbox";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import type { StepView } from "../api/schema";
import { Command } from "./Command";
import { Effect } from "./marks";

interface Props {
  /** Ticks are kept per document until the browser's window is closed. */
  documentId: string;
  steps: StepView[];
  /** Names of the steps that match the question. */
  matching?: ReadonlySet<string>;
}

function useTicks(documentId: string): [ReadonlySet<string>, (id: string, isDone: boolean) => void] {
  const key = `ticks ${documentId}`;
  const [done, setDone] = useState<ReadonlySet<string>>(() => new Set(sessionStorage.getItem(key)?.split("\n")));
  const tick = (id: string, isDone: boolean): void => {
    const ticked = isDone ? [...done, id] : [...done].filter((one) => one !== id);
    sessionStorage.setItem(key, ticked.join("\n"));
    setDone(new Set(ticked));
  };
  return [done, tick];
}

export function Steps({ documentId, steps, matching }: Props) {
  const [done, tick] = useTicks(documentId);
  return (
    <ol aria-label="Steps" style={{ listStyle: "none", margin: 0, padding: 0 }}>
      {steps.map((step) => (
        <li key={step.stepId} style={{ marginBlockEnd: 16 }}>
          <SpaceBetween size="xs">
            {step.warnings?.map((warning) => (
              <Alert key={warning} type="warning">
                {warning}
              </Alert>
            ))}
            <Checkbox
              checked={done.has(step.stepId)}
              onChange={({ detail }) => tick(step.stepId, detail.checked)}
              description={step.approval ? `needs the approval of ${step.approval}` : undefined}
            >
              <Box variant="span" fontWeight={matching?.has(step.name) ? "bold" : "normal"}>
                {step.name}. {step.title}
              </Box>{" "}
              <Effect effect={step.effect ?? "unknown"} />{" "}
              {matching?.has(step.name) ? <Box variant="small">matches the question</Box> : null}
            </Checkbox>
            {step.commands?.map((command) => (
              <Command key={command.text} command={command} />
            ))}
            {step.expect ? <Box>Expect: {step.expect}</Box> : null}
            {step.check ? <Box>Check: {step.check}</Box> : null}
            {step.ifFails ? <Box>If it fails: {step.ifFails}</Box> : null}
          </SpaceBetween>
        </li>
      ))}
    </ol>
  );
}
