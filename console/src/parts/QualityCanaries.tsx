/** Own questions that are asked every hour, with their latest results. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import Toggle from "@cloudscape-design/components/toggle";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { AS_JOB } from "../api/jobs";
import type { Canary, CanaryResult, OwnQuestion } from "../api/schema";
import { Problem } from "./Failed";
import { askLink, counted, moment } from "./InboxMore";
import { Loaded } from "./Loaded";
import { Progress, useWork } from "./Progress";
import { KEY } from "./QualityQueries";
import { Judged } from "./QualityRun";

const HISTORY = 24;

export function QualityCanaries() {
  const query = { results: HISTORY };
  const canaries = useQuery({
    queryKey: [...KEY, "canaries"],
    queryFn: () => data(api.GET("/evaluations/canaries", { params: { query } })),
  });
  const { run, step, stop } = useRunCanaries();
  return (
    <Loaded query={canaries}>
      {({ canaries: items }) => (
        <SpaceBetween size="s">
          <Table
            items={items}
            trackBy={(one) => one.question.questionId}
            wrapLines
            ariaLabels={{ tableLabel: "Canaries" }}
            header={
              <Header
                variant="h2"
                counter={counted(items)}
                description="Asked every hour, unrecorded. Questions are marked in the tab Questions, where answers add them."
                actions={
                  <Button loading={run.isPending} disabled={!items.length} onClick={() => run.mutate()}>
                    Ask them now
                  </Button>
                }
              >
                Canaries
              </Header>
            }
            empty="No question is a canary"
            columnDefinitions={[
              {
                id: "text",
                header: "Question",
                isRowHeader: true,
                minWidth: 220,
                cell: ({ question }) => <Link href={askLink(question.text)}>{question.text}</Link>,
              },
              { id: "last", header: "Last answer", minWidth: 170, cell: ({ results }) => <Last result={results[0]} /> },
              { id: "confidence", header: "Confidence", cell: ({ results }) => results[0]?.reply?.confidence.toFixed(2) ?? "" },
              { id: "history", header: "History", minWidth: 170, cell: (one) => <History canary={one} /> },
              { id: "canary", header: "Canary", cell: ({ question }) => <MarkCanary question={question} /> },
            ]}
          />
          {run.isPending ? <Progress step={step} stop={stop} /> : null}
          {run.error ? <Problem error={run.error} /> : null}
        </SpaceBetween>
      )}
    </Loaded>
  );
}

function useRunCanaries() {
  const queries = useQueryClient();
  const { step, stop, follow } = useWork();
  const run = useMutation({
    mutationFn: () => follow(api.POST("/evaluations/canaries", { body: {}, headers: AS_JOB })),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  return { run, step, stop };
}

function Last({ result }: { result: CanaryResult | undefined }) {
  if (!result) return <>not asked yet</>;
  return (
    <>
      {result.reply ? <Judged reply={result.reply} /> : <StatusIndicator type="error">not searched</StatusIndicator>}
      <Box variant="small">{moment(result.at)}</Box>
    </>
  );
}

const isRight = ({ reply }: CanaryResult): boolean => reply?.verdict === "right" || reply?.verdict === "refused";

/** How many of the latest answers were right, and since when they are as the last one is. */
function History({ canary: { results } }: { canary: Canary }) {
  const [last] = results;
  if (!last) return null;
  const changed = results.findIndex((one) => isRight(one) !== isRight(last));
  const since = results[changed < 0 ? results.length - 1 : changed - 1];
  return (
    <>
      {`${results.filter(isRight).length} of ${results.length} right`}
      <Box variant="small">{`${isRight(last) ? "right" : "not right"} since ${moment(since?.at ?? last.at)}`}</Box>
    </>
  );
}

export function MarkCanary({ question }: { question: OwnQuestion }) {
  const queries = useQueryClient();
  const params = { path: { questionId: question.questionId } };
  const mark = useMutation({
    mutationFn: (canary: boolean) =>
      data(api.PUT("/evaluations/questions/{questionId}/canary", { params, body: { canary } })),
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  return (
    <>
      <Toggle
        checked={question.canary ?? false}
        disabled={mark.isPending}
        ariaLabel={`Ask every hour: ${question.text}`}
        onChange={({ detail }) => mark.mutate(detail.checked)}
      />
      {mark.error ? <Problem error={mark.error} /> : null}
    </>
  );
}
