/** Runs a checkpoint: turns verified entries of a project into patterns. */
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Checkpoint, CheckpointReport, CheckpointType } from "../api/schema";
import { Problem } from "./Failed";
import { useTyped } from "./Unsaved";

const REASONS: { value: CheckpointType; label: string }[] = [
  { value: "manual", label: "Asked for by a person" },
  { value: "phase_completion", label: "A phase is complete" },
  { value: "project_completion", label: "The project is complete" },
  { value: "cancellation", label: "The project was cancelled" },
];

export function LearningCheckpoint() {
  const client = useQueryClient();
  const [project, setProject, release] = useTyped("");
  const [reason, setReason] = useState<CheckpointType>("manual");
  const run = useMutation({
    mutationFn: () =>
      data(api.POST("/learning/checkpoints", { body: { projectId: project.trim(), checkpointType: reason } })),
    onSuccess: () => {
      release();
      return client.invalidateQueries({ queryKey: ["learning"] });
    },
  });
  return (
    <ExpandableSection headerText="Run a checkpoint" headerDescription="Turns verified entries of a project into patterns">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          run.mutate();
        }}
      >
        <SpaceBetween size="s">
          <FormField label="Project of the checkpoint" description="Empty for your own">
            <Input value={project} onChange={({ detail }) => setProject(detail.value)} />
          </FormField>
          <FormField label="Reason">
            <Select
              options={REASONS}
              selectedOption={REASONS.find((one) => one.value === reason) ?? null}
              onChange={({ detail }) => setReason(REASONS.find((one) => one.value === detail.selectedOption.value)?.value ?? "manual")}
            />
          </FormField>
          <Button variant="primary" formAction="submit" loading={run.isPending}>
            Run
          </Button>
          {run.error ? <Problem error={run.error} /> : null}
          {run.data ? <Result checkpoint={run.data} /> : null}
        </SpaceBetween>
      </form>
    </ExpandableSection>
  );
}

function Result({ checkpoint }: { checkpoint: Checkpoint }) {
  const { report } = checkpoint;
  if (!report) {
    return <Alert type="info">The checkpoint was requested: the entries change their state once it is done.</Alert>;
  }
  return (
    <Alert type={report.refused?.length ? "warning" : "success"} header={`Checkpoint of ${report.projectId}`}>
      <Report report={report} />
    </Alert>
  );
}

function Report({ report }: { report: CheckpointReport }) {
  return (
    <SpaceBetween size="s">
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Entries learned from", value: report.takenIn ?? 0 },
          { label: "New patterns", value: report.patternsNew ?? 0 },
          { label: "Confirmed patterns", value: report.patternsConfirmed ?? 0 },
          { label: "Warnings", value: report.warnings ?? 0 },
          { label: "Still waiting", value: report.waiting?.length ?? 0 },
          { label: "Took", value: `${Math.round(report.tookMs ?? 0)} ms` },
        ]}
      />
      {report.refused?.map((one) => (
        <div key={one.entryId}>
          {one.entryId} was refused: {one.reason}
        </div>
      ))}
    </SpaceBetween>
  );
}
