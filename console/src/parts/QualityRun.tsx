/** One run: its questions with the verdict on each reply. */
import Box from "@cloudscape-design/components/box";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useInfiniteQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { RunQuestion, RunReply } from "../api/schema";
import { askLink, count, moment, Paged } from "./InboxMore";
import { nameOf, share } from "./QualityQueries";

export function QualityRun({ runId }: { runId: string }) {
  const run = useInfiniteQuery({
    queryKey: ["evaluations", "run", runId],
    queryFn: ({ pageParam }) =>
      data(api.GET("/evaluations/{runId}", { params: { path: { runId }, query: { after: pageParam } } })),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next || undefined,
  });
  return (
    <SpaceBetween size="m">
      <Link href="#/quality">All runs</Link>
      <Paged query={run}>
        {(pages) => {
          const [first] = pages;
          return (
            <Table
              items={pages.flatMap((page) => page.questions)}
              trackBy="questionId"
              wrapLines
              ariaLabels={{ tableLabel: "Questions of the run" }}
              header={
                <Header
                  variant="h2"
                  counter={count(run, (page) => page.questions)}
                  description={first ? `${nameOf(first.run)}, mode ${first.mode}, corpus ${first.run.corpus || "unknown"}` : ""}
                >
                  Run of {first ? moment(first.run.started) : ""}
                </Header>
              }
              empty="It has no questions"
              columnDefinitions={[
                { id: "text", header: "Question", isRowHeader: true, minWidth: 220, cell: (one) => <Asked question={one} /> },
                { id: "source", header: "Source", cell: (one) => one.source },
                { id: "verdict", header: "Verdict", minWidth: 130, cell: (one) => <Judged reply={one.reply} /> },
                { id: "rank", header: "Right one at", cell: (one) => (one.reply?.rank ? `#${one.reply.rank}` : "not found") },
                { id: "confidence", header: "Confidence", cell: (one) => one.reply?.confidence.toFixed(2) ?? "" },
                { id: "ndcg", header: "nDCG@10", cell: (one) => share(one.reply?.ndcg) },
                { id: "ms", header: "Took", cell: (one) => (one.reply ? `${Math.round(one.reply.milliseconds)} ms` : "") },
              ]}
            />
          );
        }}
      </Paged>
    </SpaceBetween>
  );
}

function Asked({ question }: { question: RunQuestion }) {
  return (
    <>
      <Link href={askLink(question.text)}>{question.text}</Link>
      <Box variant="small">{question.expected.length ? `right: ${question.expected.join(", ")}` : "no document answers it"}</Box>
    </>
  );
}

const VERDICTS: Record<RunReply["verdict"], [StatusIndicatorProps.Type, string]> = {
  right: ["success", "right"],
  wrong: ["error", "another document first"],
  unsure: ["warning", "below the confidence"],
  refused: ["success", "rightly refused"],
  false: ["error", "answered, and has no answer"],
};

export function Judged({ reply }: { reply: RunReply | null | undefined }) {
  if (!reply) return <StatusIndicator type="pending">not asked yet</StatusIndicator>;
  const [type, words] = VERDICTS[reply.verdict];
  return <StatusIndicator type={type}>{words}</StatusIndicator>;
}
