/** The home page: a question, an alert or a log in, the procedure and what else is known out. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import DateInput from "@cloudscape-design/components/date-input";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { api, data, KB } from "../api/client";
import type { Answer, DocumentAnswer, RetrievalResult } from "../api/schema";
import { AskLink } from "../parts/AskLink";
import { Mark, ReportGap } from "../parts/AskReports";
import { AskResearch } from "../parts/AskResearch";
import { age, Band } from "../parts/marks";
import { Loaded } from "../parts/Loaded";
import { DocumentText } from "../parts/Markdown";
import { Outcome } from "../parts/Outcome";
import { Steps } from "../parts/Steps";

const BUDGET = 3000;
/** Tokens of text in an answer: the first documents, whole where they fit. */

function ask(query: string, asOf: string): Promise<Answer> {
  const config = { minConfidence: 0, maxResults: 20, ...(asOf ? { asOf } : {}) };
  return data(
    api.POST("/knowledge/{kbId}/query", { params: { path: KB }, body: { query, budget: BUDGET, config } }),
  );
}

export default function Ask() {
  const [params, setParams] = useSearchParams();
  const asked = params.get("q") ?? "";
  const asOf = params.get("asOf") ?? "";
  const [text, setText] = useState(asked);
  const [day, setDay] = useState(asOf);
  const answer = useQuery({ queryKey: ["ask", asked, asOf], queryFn: () => ask(asked, asOf), enabled: asked !== "" });
  const submit = (): void => {
    const query = text.trim();
    if (query) setParams({ q: query, ...(day ? { asOf: day } : {}) });
  };
  return (
    <SpaceBetween size="l">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <SpaceBetween size="s">
          <FormField label="Alert, log or question" stretch>
            <Textarea
              autoFocus
              rows={3}
              value={text}
              placeholder="Paste an alert, or ask: why do pods keep restarting?"
              onChange={({ detail }) => setText(detail.value)}
              onKeyDown={(event) => {
                if (event.detail.key === "Enter" && !event.detail.shiftKey && !text.includes("\n")) {
                  event.preventDefault();
                  submit();
                }
              }}
            />
          </FormField>
          <SpaceBetween size="s" direction="horizontal" alignItems="end">
            <Button variant="primary" formAction="submit">
              Ask
            </Button>
            <FormField label="As known on" description="Leave empty for today">
              <DateInput value={day} placeholder="YYYY-MM-DD" format="iso" onChange={({ detail }) => setDay(detail.value)} />
            </FormField>
          </SpaceBetween>
        </SpaceBetween>
      </form>
      {asked ? <Loaded query={answer}>{(found) => <Found answer={found} question={asked} asOf={asOf} />}</Loaded> : null}
    </SpaceBetween>
  );
}

/** Categories of what happened, which is shown apart from what to do. */
const PAST = /^(postmortems|operations\/incidents)/;

interface FoundProps {
  answer: Answer;
  question: string;
  asOf: string;
}

function Found({ answer, question, asOf }: FoundProps) {
  const documents = answer.documents ?? [];
  const [first, ...others] = documents;
  const lists: [string, DocumentAnswer[]][] = [
    ["Past incidents", others.filter((one) => PAST.test(one.category))],
    ["Also found", others.filter((one) => !PAST.test(one.category))],
  ];
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
      {first ? <Best document={first} answer={answer} question={question} /> : <Nothing answer={answer} question={question} />}
      {lists.map(([name, found]) => (found.length ? <Others key={name} name={name} documents={found} question={question} /> : null))}
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

function Best({ document, answer, question }: { document: DocumentAnswer; answer: Answer; question: string }) {
  const [open, setOpen] = useState(false);
  const steps = useQuery({
    queryKey: ["steps", document.documentId],
    queryFn: () =>
      data(
        api.GET("/reading", { params: { query: { document: document.documentId, part: "steps", maxTokens: 20_000 } } }),
      ),
    enabled: open && (document.stepCount ?? 0) > 0,
  });
  const matching = new Set((document.steps ?? []).filter((step) => step.shown).map((step) => step.name));
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
        answer.receiptId ? (
          <SpaceBetween size="xs">
            <Box variant="awsui-key-label">Did it help?</Box>
            <Outcome key={answer.receiptId} receiptId={answer.receiptId} documentId={document.documentId} />
            <Mark key={question} question={question} documentId={document.documentId} title={document.title} />
          </SpaceBetween>
        ) : null
      }
    >
      <SpaceBetween size="m">
        {document.untrusted ? (
          <Alert type="warning">From outside the organisation ({document.tier}): data, not an instruction.</Alert>
        ) : null}
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
        <DocumentText text={document.content ?? ""} />
        {document.stepCount ? (
          <ExpandableSection
            headerText={`All ${document.stepCount} steps`}
            headerDescription={harmOf(document)}
            expanded={open}
            onChange={({ detail }) => setOpen(detail.expanded)}
          >
            <Loaded query={steps}>{(part) => <Steps documentId={document.documentId} steps={part.steps ?? []} matching={matching} />}</Loaded>
          </ExpandableSection>
        ) : null}
        <ExpandableSection headerText="Why this answer">
          <Why document={document} answer={answer} />
        </ExpandableSection>
      </SpaceBetween>
    </Container>
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

