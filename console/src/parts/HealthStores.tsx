/** Compares corpus, catalog, index and graph, and repairs differences. Works where the server has all stores. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../api/client";
import { AS_JOB } from "../api/jobs";
import type { ReconcileReport } from "../api/schema";
import { Confirm } from "./Confirm";
import { Problem } from "./Failed";
import { Progress, useWork } from "./Progress";

export function HealthStores() {
  const [isAsking, setAsking] = useState(false);
  const { step, stop, follow } = useWork();
  const queries = useQueryClient();
  const check = useMutation({
    mutationFn: (repair: boolean) => follow(api.POST("/reconciliation", { body: { repair }, headers: AS_JOB })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["status"] }),
  });
  return (
    <Container
      header={
        <Header
          variant="h2"
          description="Compares corpus, catalog, chunk files, index, graph and calendar of all clients"
          actions={
            <SpaceBetween size="xs" direction="horizontal">
              <Button disabled={check.isPending} onClick={() => check.mutate(false)}>
                Check the stores
              </Button>
              <Button loading={check.isPending} onClick={() => setAsking(true)}>
                Repair
              </Button>
            </SpaceBetween>
          }
        >
          Stores
        </Header>
      }
    >
      <SpaceBetween size="s">
        {check.isPending ? <Progress step={step} stop={stop} /> : null}
        {check.error ? <Problem error={check.error} /> : null}
        {check.data ? <Report report={check.data} /> : null}
      </SpaceBetween>
      {isAsking ? (
        <Confirm
          header="Repair differences?"
          action="Repair"
          isBusy={false}
          error={null}
          onConfirm={() => {
            setAsking(false);
            check.mutate(true);
          }}
          onDismiss={() => setAsking(false)}
        >
          <Box>What has no document any more is removed, and what lacks is ingested again. Documents themselves are not changed.</Box>
        </Confirm>
      ) : null}
    </Container>
  );
}

const MOST = 20;

function Report({ report }: { report: ReconcileReport }) {
  const counts = Object.entries(report.counts ?? {});
  const differences = report.differences ?? [];
  return (
    <SpaceBetween size="s">
      <KeyValuePairs
        columns={4}
        items={[
          { label: "Documents", value: report.documents ?? 0 },
          { label: "In the index", value: report.indexDocuments ?? 0 },
          { label: "Differences", value: counts.map(([name, value]) => `${name}: ${value}`).join(", ") || "none" },
          { label: "Repaired", value: report.repaired ?? 0 },
        ]}
      />
      {differences.length ? (
        <ul aria-label="Differences" style={{ margin: 0, paddingInlineStart: 20 }}>
          {differences.slice(0, MOST).map((one, index) => (
            <li key={index}>{Object.values(one).filter(Boolean).join(" · ")}</li>
          ))}
        </ul>
      ) : null}
      {differences.length > MOST ? <Box variant="small">and {differences.length - MOST} more</Box> : null}
    </SpaceBetween>
  );
}
