/** The home page: a question, an alert or a log in, the procedure and what else is known out. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, startTransition, useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { api, data, KB } from "../api/client";
import type { Answer, DocumentAnswer, RetrievalResult } from "../api/schema";
import { AskForm } from "../parts/AskForm";
import { AskLink } from "../parts/AskLink";
import { AskRelated } from "../parts/AskRelated";
import { Mark, ReportGap } from "../parts/AskReports";
import { AskResearch } from "../parts/AskResearch";
import { age, Band, Untrusted } from "../parts/marks";
import { Loaded } from "../parts/Loaded";
import { DocumentText } from "../parts/Markdown";
import { Outcome } from "../parts/Outcome";
import { Steps } from "../parts/Steps";

/** Tokens of text in an answer: the first documents, whole where they fit. */
const BUDGET = 3000;

function ask(query: string, asOf: string): Promise<Answer> {
  const config = { minConfidence: 0, maxResults: 20, expandGraph: true, ...(asOf ? { asOf } : {}) };
  return data(
    api.POST("/knowledge/{kbId}/query", { params: { path: KB }, body: { query, budget: BUDGET, config } }),
  );
}

export default function Ask() {
  const [params, setParams] = useSearchParams();
  const asked = params.get("q") ?? "";
  const asOf = params.get("asOf") ?? "";
  return (
    <SpaceBetween size="l">
      <AskForm asked={asked} asOf={asOf} onAsk={(q, day) => setParams({ q, ...(day ? { asOf: day } : {}) })} />
      {asked ? <Answered key={`${asked} ${asOf}`} asked={asked} asOf={asOf} /> : null}
    </SpaceBetween>
  );
}

function Answered({ asked, asOf }: { asked: string; asOf: string }) {
  const answer = useQuery({ queryKey: ["ask", asked, asOf], queryFn: () => ask(asked, asOf) });
  return <Loaded query={answer}>{(found) => <Found answer={found} question={asked} asOf={asOf} />}</Loaded>;
}

/** Categories of what happened, which is shown apart from what to do. */
const PAST = /^(postmortems|operations\/incidents)/;

interface FoundProps {
  answer: Answer;
  question: string;
  asOf: string;
}

/** What is drawn of an answer: first the best document's title with its confidence, then its text, then all else. */
const TITLE = 0;
const TEXT = 1;
const ALL = 2;

/** How much is drawn. Each step is seen before the next is begun, which what a person does can interrupt. */
function useDrawn(): number {
  const [drawn, setDrawn] = useState(TITLE);
  useEffect(() => {
    if (drawn < ALL) startTransition(() => setDrawn(drawn + 1));
  }, [drawn]);
  return drawn;
}

function Found({ answer, question, asOf }: FoundProps) {
  const drawn = useDrawn();
  const first = answer.documents?.[0];
  return (
    <SpaceBetween size="l">
      {answer.notes?.map((note) => (
        <Alert key={note} type="info">
          {note}
        </Alert>
      ))}
      {answer.absent?.map((one) => (
        <Alert key={one.name} type="warning" header={`No page is about ${one.name}`}>
          {one.nearest ? <>The nearest is {one.nearest}.</> : null}
        </Alert>
      ))}
      {first ? (
        <Best document={first} answer={answer} question={question} drawn={drawn} />
      ) : (
        <Nothing answer={answer} question={question} />
      )}
      {drawn === ALL ? <Rest answer={answer} question={question} asOf={asOf} /> : null}
    </SpaceBetween>
  );
}

function Rest({ answer, question, asOf }: FoundProps) {
  const others = answer.documents?.slice(1) ?? [];
  const lists: [string, DocumentAnswer[]][] = [
    ["Past incidents", others.filter((one) => PAST.test(one.category))],
    ["Also found", others.filter((one) => !PAST.test(one.category))],
  ];
  return (
    <SpaceBetween size="l">
      {lists.map(([name, found]) => (found.length ? <Others key={name} name={name} documents={found} question={question} /> : null))}
      {answer.evidencePack ? <AskRelated pack={answer.evidencePack} /> : null}
      <SpaceBetween size="xs" direction="horizontal">
        {answer.receiptId ? <AskLink receiptId={answer.receiptId} question={question} /> : null}
        <ReportGap key={question} question={question} />
      </SpaceBetween>
      <AskResearch key={`${question} ${asOf}`} question={question} asOf={asOf} />
    </SpaceBetween>
  );
}

function Others({ name, documents, question }: { name: string; documents: DocumentAnswer[]; question: string }) {
  return (
    <Container header={<Header variant="h2">{name}</Header>}>
      <ul aria-label={name} style={{ margin: 0, paddingInlineStart: 20 }}>
        {documents.map((one) => (
          <li key={one.documentId}>
            <Link href={`#/documents/${one.documentId}`}>{one.title}</Link>
            {one.section ? ` › ${one.section}` : ""} <Band band={one.band ?? "weak"} confidence={one.confidence} />{" "}
            <Box variant="small" display="inline">
              {one.category}, {age(one.ageDays)}
              {one.outcome ? `, ${one.outcome}` : ""}
            </Box>{" "}
            <Mark key={question} question={question} documentId={one.documentId} title={one.title} />
          </li>
        ))}
      </ul>
    </Container>
  );
}

function Nothing({ answer, question }: { answer: Answer; question: string }) {
  const near = answer.nearest;
  return (
    <Alert type="warning" header="Nothing here is near this question">
      {near ? <>The nearest page is “{titleOf(near)}”. </> : null}
      The question is recorded as a gap of knowledge: see the inbox. <Mark key={question} question={question} />
    </Alert>
  );
}

const titleOf = (hit: RetrievalResult): string => {
  const metadata: Record<string, unknown> = hit.metadata ?? {};
  return typeof metadata.title === "string" ? metadata.title : hit.source;
};

interface BestProps {
  document: DocumentAnswer;
  answer: Answer;
  question: string;
  drawn: number;
}

function Best({ document, answer, question, drawn }: BestProps) {
  const isDrawn = drawn === ALL;
  return (
    <Container
      header={
        <Header
          variant="h2"
          description={<Facts document={document} />}
          actions={
            <Link variant="primary" href={`#/documents/${document.documentId}`}>
              Open the document
            </Link>
          }
        >
          {document.title}
        </Header>
      }
      footer={
        isDrawn && answer.receiptId ? (
          <SpaceBetween size="xs">
            <Box variant="awsui-key-label">Did it help?</Box>
            <Outcome key={answer.receiptId} receiptId={answer.receiptId} documentId={document.documentId} />
            <Mark key={question} question={question} documentId={document.documentId} title={document.title} />
          </SpaceBetween>
        ) : null
      }
    >
      <SpaceBetween size="m">
        <Untrusted of={document} />
        {document.warnings?.map((warning) => (
          <Alert key={warning} type="warning" header="Tried before">
            {warning}
          </Alert>
        ))}
        {document.flags?.map((flag) => (
          <Alert key={flag} type="warning">
            {flag.replaceAll("_", " ")}
          </Alert>
        ))}
        {drawn >= TEXT ? <DocumentText text={document.content ?? ""} /> : null}
        {isDrawn && document.stepCount ? <AllSteps document={document} /> : null}
        {isDrawn ? (
          <Folded text="Why this answer">{() => <Why document={document} answer={answer} />}</Folded>
        ) : null}
      </SpaceBetween>
    </Container>
  );
}

function AllSteps({ document }: { document: DocumentAnswer }) {
  const [isOpen, setOpen] = useState(false);
  const steps = useQuery({
    queryKey: ["steps", document.documentId],
    queryFn: () =>
      data(
        api.GET("/reading", { params: { query: { document: document.documentId, part: "steps", maxTokens: 20_000 } } }),
      ),
    enabled: isOpen,
  });
  const matching = new Set((document.steps ?? []).filter((step) => step.shown).map((step) => step.name));
  return (
    <ExpandableSection
      headerText={`All ${document.stepCount} steps`}
      headerDescription={harmOf(document)}
      expanded={isOpen}
      onChange={({ detail }) => setOpen(detail.expanded)}
    >
      {isOpen ? (
        <Loaded query={steps}>
          {(part) => <Steps documentId={document.documentId} steps={part.steps ?? []} matching={matching} />}
        </Loaded>
      ) : null}
    </ExpandableSection>
  );
}

/** A section whose content is made when it is opened. */
function Folded({ text, children }: { text: string; children: () => ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <ExpandableSection headerText={text} expanded={isOpen} onChange={({ detail }) => setOpen(detail.expanded)}>
      {isOpen ? children() : null}
    </ExpandableSection>
  );
}

/** Says which steps destroy something, before anybody opens them. */
function harmOf(document: DocumentAnswer): string {
  const harmful = (document.steps ?? []).filter((step) => step.effect === "destructive").map((step) => step.name);
  return harmful.length ? `destructive: ${harmful.join(", ")}` : "";
}

function Facts({ document }: { document: DocumentAnswer }) {
  return (
    <SpaceBetween size="xs" direction="horizontal">
      <Band band={document.band ?? "weak"} confidence={document.confidence} />
      <span>{document.category}</span>
      <span>{age(document.ageDays)}</span>
      {document.owner ? <span>owner {document.owner}</span> : null}
      {document.outcome ? <span>{document.outcome}</span> : null}
    </SpaceBetween>
  );
}

function Why({ document, answer }: { document: DocumentAnswer; answer: Answer }) {
  const hit = answer.results.find((one) => one.metadata && "documentId" in one.metadata && one.metadata.documentId === document.documentId);
  const parts = hit?.scores;
  const rank = (value: number | null | undefined): string => (value ? `#${value}` : "not found");
  const timings = Object.entries(answer.timingsMs ?? {});
  return (
    <KeyValuePairs
      columns={3}
      items={[
        { label: "Because of", value: document.why },
        { label: "By words", value: rank(parts?.lexicalRank) },
        { label: "By meaning", value: rank(parts?.vectorRank) },
        { label: "Confidence × trust", value: `${document.confidence.toFixed(2)} × ${document.trust.toFixed(2)} = ${document.score.toFixed(2)}` },
        { label: "Outcomes", value: parts?.outcome ? `× ${parts.outcome.toFixed(2)}` : "none recorded" },
        { label: "Judged", value: document.judged ?? "estimated" },
        {
          label: "Tiers asked",
          value: (answer.routing ?? []).map((one) => `${one.tier}: ${one.searched ? "searched" : "not searched"} (${one.reason})`).join("; "),
        },
        { label: "Took", value: timings.map(([name, ms]) => `${name} ${Math.round(ms)} ms`).join(", ") },
        { label: "Receipt", value: answer.receiptId || "not recorded" },
        { label: "Source", value: document.source },
      ]}
    />
  );
}

