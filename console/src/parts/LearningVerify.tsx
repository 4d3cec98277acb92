/** Records whether the solution of an entry worked. */
import Box from "@cloudscape-design/components/box";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import RadioGroup from "@cloudscape-design/components/radio-group";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { StagingEntry } from "../api/schema";
import { Confirm } from "./Confirm";
import { titleOf } from "./LearningEntries";
import { useTyped } from "./Unsaved";

const RESULTS = [
  { value: "worked", label: "It worked", description: "You or a check saw it.", body: { worked: true } },
  { value: "failed", label: "It did not work", description: "", body: { worked: false } },
  { value: "no_effect", label: "It had no effect", description: "", body: { worked: false, effect: "no_effect" } },
  { value: "made_worse", label: "It made things worse", description: "", body: { worked: false, effect: "made_worse" } },
] as const;

export function LearningVerify({ entry, onDismiss }: { entry: StagingEntry; onDismiss: () => void }) {
  const client = useQueryClient();
  const [result, setResult] = useState("");
  const [incident, setIncident] = useTyped(entry.incident);
  const chosen = RESULTS.find((one) => one.value === result);
  const verify = useMutation({
    mutationFn: (body: (typeof RESULTS)[number]["body"]) =>
      data(
        api.POST("/learning/entries/{entryId}/verification", {
          params: { path: { entryId: entry.id } },
          body: { ...body, incident: incident.trim() },
        }),
      ),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["learning"] });
      onDismiss();
    },
  });
  return (
    <Confirm
      header="Did it work?"
      action="Record"
      isBusy={verify.isPending}
      isIncomplete={!chosen}
      error={verify.error}
      onConfirm={() => (chosen ? verify.mutate(chosen.body) : undefined)}
      onDismiss={onDismiss}
    >
      <Box>{titleOf(entry)}</Box>
      <FormField label="Result" description="It can't be changed afterwards.">
        <RadioGroup
          value={result}
          items={RESULTS.map(({ value, label, description }) => ({ value, label, description }))}
          onChange={({ detail }) => setResult(detail.value)}
        />
      </FormField>
      <FormField label="Incident" description="Where it was seen, if there was one">
        <Input value={incident} placeholder="INC-7" onChange={({ detail }) => setIncident(detail.value)} />
      </FormField>
    </Confirm>
  );
}
