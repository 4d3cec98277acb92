/** Asks deeper: several planned searches, shown as they are done, and their findings. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, isCancelled } from "../api/client";
import { AS_JOB } from "../api/jobs";
import type { Finding, ResearchReport, ResearchStep } from "../api/schema";
import { Problem } from "./Failed";
import { documentLink } from "./InboxMore";
import { Progress, useWork } from "./Progress";
import { Band } from "./marks";

interface Props {
  question: string;
  asOf: string;
}

export function AskResearch({ question, asOf }: Props) {
  const [steps, setSteps] = useState<string[]>([]);
  const { step, stop, follow } = useWork((one) => setSteps((before) => [...before, one]));
  const research = useMutation({
    mutationFn: () => {
      setSteps([]);
      const body = { topic: question, ...(asOf ? { config: { asOf } } : {}) };
      return follow(api.POST("/research", { body, headers: AS_JOB }));
    },
  });
  const shown = research.data ? (research.data.trace ?? []).map(wordsOf) : steps;
  return (
    <Container
      header={
        <Header
          variant="h2"
          description="Several searches: for each part of the question, and again for what is missing"
          actions={
            <Button loading={research.isPending} onClick={() => research.mutate()}>
              Ask deeper
            </Button>
          }
        >
          Research
        </Header>
      }
    >
      <SpaceBetween size="s">
        {research.isPending ? <Progress step={step} stop={stop} /> : null}
        {shown.length ? (
          <ol aria-label="Steps of the research" style={{ margin: 0 }}>
            {shown.map((step, index) => (
              <li key={index}>{step}</li>
            ))}
          </ol>
        ) : null}
        {isCancelled(research.error) ? <StatusIndicator type="stopped">Stopped: these searches were done</StatusIndicator> : null}
        {research.error && !isCancelled(research.error) ? <Problem error={research.error} again={() => research.mutate()} /> : null}
        {research.data ? <Report report={research.data} /> : null}
      </SpaceBetween>
    </Container>
  );
}

function wordsOf(step: ResearchStep): string {
  const counted = `${step.results ?? 0} ${step.kind === "plan" ? "searches planned" : "results"}, ${step.new ?? 0} new`;
  return `round ${step.iteration}, ${step.kind} “${step.text}”: ${step.error || counted}`;
}

function Report({ report }: { report: ResearchReport }) {
  return (
    <SpaceBetween size="s">
      {report.gaps?.map((gap) => (
        <Alert key={gap} type="warning">
          Nothing good was found for: {gap}
        </Alert>
      ))}
      {report.notes?.map((note) => (
        <Alert key={note} type="info">
          {note}
        </Alert>
      ))}
      <ul aria-label="Findings" style={{ margin: 0, paddingInlineStart: 20 }}>
        {(report.findings ?? []).map((one, index) => (
          <li key={index}>
            <Found finding={one} />
          </li>
        ))}
      </ul>
      {report.findings?.length ? null : <Box>Nothing was found.</Box>}
    </SpaceBetween>
  );
}

function Found({ finding }: { finding: Finding }) {
  const title = finding.title || finding.source;
  return (
    <>
      {finding.documentId ? <Link href={documentLink(finding.documentId)}>{title}</Link> : title}
      {finding.section ? ` › ${finding.section}` : ""} <Band band={finding.band ?? "weak"} confidence={finding.confidence ?? 0} />{" "}
      <Box variant="small" display="inline">
        found by {finding.foundBy?.join("; ")}
      </Box>
    </>
  );
}
