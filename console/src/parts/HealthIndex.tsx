/** The index: its editions, a new one with progress, the way back; and checks of the stores with repairs. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { AS_JOB } from "../api/jobs";
import type { IndexJob, IndexStatus } from "../api/schema";
import { Confirm } from "./Confirm";
import { Problem } from "./Failed";
import { HealthStores } from "./HealthStores";
import { moment } from "./InboxMore";
import { Loaded } from "./Loaded";
import { Progress, useWork } from "./Progress";

const POLL_MS = 3000;
const isUnderWay = (status: IndexStatus | undefined): boolean =>
  Boolean(status?.target) || Boolean(status?.job && !["done", "refused"].includes(status.job.phase));

export function HealthIndex() {
  const status = useQuery({
    queryKey: ["index"],
    queryFn: () => data(api.GET("/index")),
    refetchInterval: ({ state }) => (isUnderWay(state.data) ? POLL_MS : false),
  });
  return (
    <SpaceBetween size="l">
      <Loaded query={status}>{(found) => <Editions status={found} />}</Loaded>
      <HealthStores />
    </SpaceBetween>
  );
}

type Work = "reindex" | "rollback";

/** Calls the API. A deployed system only orders it: the state is polled then. */
function useIndexWork() {
  const queries = useQueryClient();
  const { step, stop, follow } = useWork();
  const work = useMutation({
    mutationFn: (wanted: Work): Promise<IndexJob> => {
      const call =
        wanted === "reindex"
          ? api.POST("/index", { body: {}, headers: AS_JOB })
          : api.POST("/index/rollback", { body: {}, headers: AS_JOB });
      return follow(call);
    },
    onSettled: () => Promise.all(["index", "status"].map((name) => queries.invalidateQueries({ queryKey: [name] }))),
  });
  return { work, step, stop };
}

function Editions({ status }: { status: IndexStatus }) {
  const [asking, setAsking] = useState<Work>();
  const { work, step, stop } = useIndexWork();
  const hasPrevious = status.indexes.some((one) => one.state === "previous");
  const begin = (wanted: Work): void => {
    setAsking(undefined);
    work.mutate(wanted);
  };
  return (
    <SpaceBetween size="m">
      {work.isPending ? <Progress step={step} stop={stop} /> : null}
      {work.error ? <Problem error={work.error} /> : null}
      {status.job ? <LastJob job={status.job} /> : null}
      <Table
        items={status.indexes}
        trackBy="name"
        ariaLabels={{ tableLabel: "Editions of the index" }}
        header={
          <Header
            variant="h2"
            counter={`(${status.indexes.length})`}
            description="A new index is built beside the one that answers, checked, and switched to."
            actions={
              <SpaceBetween size="xs" direction="horizontal">
                <Button disabled={!hasPrevious || work.isPending} onClick={() => setAsking("rollback")}>
                  Roll back
                </Button>
                <Button loading={work.isPending} onClick={() => setAsking("reindex")}>
                  {isUnderWay(status) ? "Go on reindexing" : "Reindex"}
                </Button>
              </SpaceBetween>
            }
          >
            Index
          </Header>
        }
        empty="There is no index yet"
        columnDefinitions={[
          { id: "name", header: "Edition", isRowHeader: true, cell: (one) => one.name || "the first" },
          { id: "state", header: "State", cell: (one) => one.state },
          { id: "model", header: "Embedding model", cell: (one) => one.embeddingModel || "unknown" },
          { id: "made", header: "Made", cell: (one) => (one.madeAt ? moment(one.madeAt) : "unknown") },
        ]}
      />
      {asking === "reindex" ? (
        <Confirm
          header="Build a new index?"
          action="Reindex"
          isBusy={false}
          error={null}
          onConfirm={() => begin("reindex")}
          onDismiss={() => setAsking(undefined)}
        >
          <Box>All passages are embedded again, which may cost time and money. The present index answers until the switch.</Box>
        </Confirm>
      ) : null}
      {asking === "rollback" ? (
        <Confirm
          header="Return to the previous index?"
          action="Roll back"
          isBusy={false}
          error={null}
          onConfirm={() => begin("rollback")}
          onDismiss={() => setAsking(undefined)}
        >
          <Box>Changes since the switch are applied to the previous index first; then it answers again.</Box>
        </Confirm>
      ) : null}
    </SpaceBetween>
  );
}

function LastJob({ job }: { job: IndexJob }) {
  const counts = `${job.documents} documents, ${job.chunks} passages, ${job.renewed} changes made up for`;
  if (job.phase === "done") return <StatusIndicator>the last reindexing is done: {counts}</StatusIndicator>;
  if (job.phase === "refused") {
    return <StatusIndicator type="error">the new index finds less and does not answer: {counts}</StatusIndicator>;
  }
  return (
    <StatusIndicator type="in-progress">
      {job.phase}: {counts}
      {job.goesOnAt ? `; goes on at ${moment(job.goesOnAt)}` : ""}
    </StatusIndicator>
  );
}
