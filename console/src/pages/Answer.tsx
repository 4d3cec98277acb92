/** An answer as it was given, by its receipt: what a permanent link shows. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearchParams } from "react-router";
import { api, data } from "../api/client";
import type { GivenAnswer, GivenPassage } from "../api/schema";
import { AskLink } from "../parts/AskLink";
import { documentLink, moment } from "../parts/InboxMore";
import { Loaded } from "../parts/Loaded";
import { Band } from "../parts/marks";
import { DocumentText } from "../parts/Markdown";
import { Outcome } from "../parts/Outcome";

export default function Answer() {
  const { receiptId = "" } = useParams();
  const question = useSearchParams()[0].get("q") ?? "";
  const answer = useQuery({
    queryKey: ["answer", receiptId, question],
    queryFn: () => data(api.GET("/answers/{receiptId}", { params: { path: { receiptId }, query: { question } } })),
  });
  return <Loaded query={answer}>{(found) => <Given answer={found} question={question} />}</Loaded>;
}

function Given({ answer, question }: { answer: GivenAnswer; question: string }) {
  const { record, passages } = answer;
  const [first] = passages;
  const known = answer.isQuestion ? question : "";
  return (
    <SpaceBetween size="l">
      <Header
        variant="h1"
        description={`As it was given on ${moment(record.askedAt)} to ${record.principal || "somebody unnamed"} (${record.who})`}
        actions={<AskLink receiptId={record.receiptId} question={known} />}
      >
        {known || "An earlier answer"}
      </Header>
      {answer.isQuestion === false ? (
        <Alert type="warning">The question in this address is not the one that was asked: it is not shown.</Alert>
      ) : null}
      {known ? (
        <Link href={`#/?q=${encodeURIComponent(known)}&asOf=${record.askedAt.slice(0, 10)}`}>Ask it again as of that day</Link>
      ) : null}
      {first ? null : <Alert type="warning">It had no results{record.nearest ? ", only a nearest document" : ""}.</Alert>}
      {passages.map((one, index) => (
        <Passage key={`${one.chunkId} ${index}`} rank={index + 1} passage={one} />
      ))}
      {first && first.state !== "gone" ? (
        <Container header={<Header variant="h2">Did it help?</Header>}>
          <Outcome receiptId={record.receiptId} documentId={first.documentId} />
        </Container>
      ) : null}
      <ExpandableSection headerText="Why this answer" variant="container">
        <Why answer={answer} />
      </ExpandableSection>
    </SpaceBetween>
  );
}

const STATES: Record<GivenPassage["state"], string> = {
  current: "current",
  replaced: "replaced or deleted since",
  gone: "removed since, or not visible to you",
};

function Passage({ rank, passage }: { rank: number; passage: GivenPassage }) {
  if (passage.state === "gone") {
    return (
      <Alert type="warning" header={`#${rank}: ${passage.documentId.slice(0, 12)}`}>
        {STATES.gone}
      </Alert>
    );
  }
  return (
    <Container
      header={
        <Header
          variant="h2"
          description={
            <SpaceBetween size="xs" direction="horizontal">
              <Band band={passage.band} confidence={passage.confidence} />
              <span>{passage.category}</span>
              <span>
                version {passage.version}, {STATES[passage.state]}
              </span>
            </SpaceBetween>
          }
        >
          #{rank} <Link href={documentLink(passage.documentId)}>{passage.title}</Link>
        </Header>
      }
    >
      {passage.section ? <Box variant="small">{passage.section}</Box> : null}
      <DocumentText text={passage.content ?? ""} />
    </Container>
  );
}

function Why({ answer: { record, passages } }: { answer: GivenAnswer }) {
  const stored = passages.filter((one) => one.state !== "gone").length;
  return (
    <KeyValuePairs
      columns={3}
      items={[
        { label: "Results", value: `${record.documentsInAll}, of which ${record.documents.length} are on record` },
        { label: "Confidences", value: passages.map((one) => one.confidence.toFixed(2)).join(", ") || "none" },
        { label: "Texts as of then", value: `${stored} of ${passages.length} are stored, found by the ids of their text` },
        { label: "Mode", value: record.partial ? `${record.mode}, partial` : record.mode },
        { label: "Took", value: `${Math.round(record.tookMs)} ms` },
        { label: "Corpus", value: record.corpusVersion || "unknown" },
        { label: "Receipt", value: record.receiptId },
        { label: "Hash of the question", value: record.queryHash },
        { label: "Hash of the answer", value: record.answerHash },
      ]}
    />
  );
}
