/** A pattern with the entries that were counted for it; merges another into it, and splits parts off. */
import Button from "@cloudscape-design/components/button";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Pattern, PatternView } from "../api/schema";
import { LearningMerge } from "./LearningMerge";
import { LearningOccurrences } from "./LearningOccurrences";
import { LearningRetire } from "./LearningRetire";
import { LearningSplit } from "./LearningSplit";
import { isRefused, Refused, Success, TYPES } from "./LearningTerms";
import { Loaded } from "./Loaded";
import { DocumentText } from "./Markdown";

export function LearningPattern({ patternId }: { patternId: string }) {
  const pattern = useQuery({
    queryKey: ["learning", "pattern", patternId],
    queryFn: () => data(api.GET("/learning/patterns/{patternId}", { params: { path: { patternId } } })),
  });
  return (
    <SpaceBetween size="m">
      <Link href="#/learning">All patterns</Link>
      {isRefused(pattern.error) ? (
        <Refused error={pattern.error} />
      ) : (
        <Loaded query={pattern}>{(view) => <Shown view={view} />}</Loaded>
      )}
    </SpaceBetween>
  );
}

function Shown({ view }: { view: PatternView }) {
  const [isMerging, setMerging] = useState(false);
  const [isRetiring, setRetiring] = useState(false);
  const [splitting, setSplitting] = useState<string[]>([]);
  const [done, setDone] = useState<{ text: string; otherId: string } | null>(null);
  const { pattern } = view;
  return (
    <SpaceBetween size="m">
      {done ? (
        <StatusIndicator>
          {done.text} {done.otherId ? <Link href={`#/learning?pattern=${done.otherId}`}>Open the other pattern</Link> : null}
        </StatusIndicator>
      ) : null}
      {pattern.retired ? <StatusIndicator type="stopped">retired: {pattern.retired}</StatusIndicator> : null}
      <Facts pattern={pattern} onMerge={() => setMerging(true)} onRetire={() => setRetiring(true)} />
      <LearningOccurrences view={view} onSplit={setSplitting} />
      <Merged pattern={pattern} onSplit={(id) => setSplitting([id])} />
      {isRetiring ? <LearningRetire pattern={pattern} onDismiss={() => setRetiring(false)} /> : null}
      {isMerging ? (
        <LearningMerge
          pattern={pattern}
          onDismiss={() => setMerging(false)}
          onDone={(change) => {
            setMerging(false);
            setDone({ text: change.changed ? "The other pattern is counted for this one." : "It was merged before.", otherId: "" });
          }}
        />
      ) : null}
      {splitting.length ? (
        <LearningSplit
          pattern={pattern}
          ids={splitting}
          onDismiss={() => setSplitting([])}
          onDone={(change) => {
            setSplitting([]);
            setDone({ text: change.changed ? "Split off." : "Nothing changed.", otherId: change.otherId });
          }}
        />
      ) : null}
    </SpaceBetween>
  );
}

interface FactsProps {
  pattern: Pattern;
  onMerge: () => void;
  onRetire: () => void;
}

function Facts({ pattern, onMerge, onRetire }: FactsProps) {
  const actions = (
    <SpaceBetween size="xs" direction="horizontal">
      <Button onClick={onRetire}>{pattern.retired ? "Use again" : "Retire"}</Button>
      <Button onClick={onMerge}>Merge another into it</Button>
    </SpaceBetween>
  );
  return (
    <Container
      header={
        <Header variant="h2" description={<Success pattern={pattern} />} actions={actions}>
          {pattern.problem}
        </Header>
      }
    >
      <SpaceBetween size="m">
        <DocumentText text={pattern.solution} />
        {pattern.errorMessage ? <pre className="opx-lines">{pattern.errorMessage}</pre> : null}
        <KeyValuePairs
          columns={3}
          items={[
            { label: "When to try", value: pattern.whenToTry },
            { label: "Type", value: TYPES[pattern.entryType] },
            { label: "About", value: [...(pattern.technologies ?? []), pattern.gateType].filter(Boolean).join(", ") || "anything" },
            { label: "Tasks", value: pattern.taskTypes?.join(", ") || "any" },
            { label: "Agents", value: pattern.agentTypes?.join(", ") || "any" },
            { label: "Projects", value: pattern.projects?.join(", ") || "none" },
            { label: "Shared within", value: pattern.scope },
            { label: "Seen", value: `${pattern.firstSeen.slice(0, 10)} to ${pattern.embeddedAt.slice(0, 10)}` },
            { label: "Id", value: pattern.patternId },
          ]}
        />
      </SpaceBetween>
    </Container>
  );
}

function Merged({ pattern, onSplit }: { pattern: Pattern; onSplit: (id: string) => void }) {
  if (!pattern.merged?.length) return null;
  return (
    <Container header={<Header variant="h3">Merged into it</Header>}>
      <SpaceBetween size="xs">
        {pattern.merged.map((id) => (
          <SpaceBetween key={id} size="xs" direction="horizontal" alignItems="center">
            <Box>{id}</Box>
            <Button ariaLabel={`Split off the pattern ${id}`} onClick={() => onSplit(id)}>
              Split off
            </Button>
          </SpaceBetween>
        ))}
      </SpaceBetween>
    </Container>
  );
}
