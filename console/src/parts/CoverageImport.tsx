/** Imports files of alert rules, and shows what became of each. */
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { useCovered } from "./CoverageQueries";
import { UploadDrop } from "./UploadDrop";
import type { ChosenFile } from "./UploadFiles";
import { ingested } from "./UploadStates";

const MAX_CHARACTERS = 2 * 1024 ** 2;

interface Fate {
  name: string;
  text: string;
  isFailed: boolean;
}

export function CoverageImport() {
  const [fates, setFates] = useState<Fate[]>([]);
  const refresh = useCovered();
  const send = useMutation({
    mutationFn: async (files: ChosenFile[]) => {
      for (const { file } of files) {
        const fate = await imported(file).catch((error: unknown) => failed(file, error));
        setFates((before) => [...before.filter(({ name }) => name !== file.name), fate]);
      }
    },
    onSettled: refresh,
  });
  return (
    <ExpandableSection
      variant="container"
      headerText="Import alert rules"
      headerDescription="Of Prometheus, Grafana, CloudWatch or Datadog: .yaml, .yml, .json or .rules. A file of the same name is replaced."
    >
      <SpaceBetween size="s">
        <UploadDrop onFiles={(files) => send.mutate(files)} />
        {send.isPending ? <StatusIndicator type="in-progress">The rules are imported</StatusIndicator> : null}
        {fates.map((one) => (
          <StatusIndicator key={one.name} type={one.isFailed ? "error" : "success"}>{`${one.name}: ${one.text}`}</StatusIndicator>
        ))}
        <Box variant="small">`opx alerts import` takes larger exports, and splits them.</Box>
      </SpaceBetween>
    </ExpandableSection>
  );
}

async function imported(file: File): Promise<Fate> {
  if (file.size > MAX_CHARACTERS) throw new Error("larger than 2 MB: `opx alerts import` splits it");
  const { objectKey, alerts, problems } = await data(api.POST("/alerts/rules", { body: { name: file.name, rules: await file.text() } }));
  await ingested(objectKey);
  return { name: file.name, text: [`${alerts.length} alerts`, ...problems].join("; "), isFailed: false };
}

const failed = (file: File, error: unknown): Fate => ({
  name: file.name,
  text: error instanceof Error ? error.message : String(error),
  isFailed: true,
});
