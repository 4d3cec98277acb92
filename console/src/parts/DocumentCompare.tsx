/** Two versions compared: safeguards first, then steps, metadata and lines. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { KnowledgeDocument, SafeguardChange, StepChange, VersionDiff } from "../api/schema";
import { documentKey } from "./DocumentQueries";
import { DocumentDiffLines } from "./DocumentDiffLines";
import { day } from "./DocumentMarks";
import { DocumentNotes } from "./DocumentNotes";
import { Loaded } from "./Loaded";

export function DocumentCompare({ documentId, versions }: { documentId: string; versions: KnowledgeDocument[] }) {
  const [before, setBefore] = useState<number>();
  const [after, setAfter] = useState<number>();
  const to = after ?? versions[0]?.version ?? 1;
  const from = before ?? versions.find(({ version = 1 }) => version < to)?.version ?? to;
  const query = useQuery({
    queryKey: [...documentKey(documentId), "diff", from, to],
    queryFn: () => data(api.GET("/documents/{documentId}/diff", { params: { path: { documentId }, query: { from, to } } })),
    enabled: from !== to,
  });
  if (versions.length < 2) return <Box>There is no other version to compare with.</Box>;
  return (
    <SpaceBetween size="m">
      <Header variant="h2">Compare two versions</Header>
      <SpaceBetween size="m" direction="horizontal">
        <Choice label="From" versions={versions} chosen={from} onChoose={setBefore} />
        <Choice label="To" versions={versions} chosen={to} onChoose={setAfter} />
      </SpaceBetween>
      {from === to ? <Box>Choose two versions.</Box> : <Loaded query={query}>{(diff) => <Changes diff={diff} />}</Loaded>}
    </SpaceBetween>
  );
}

interface ChoiceProps {
  label: string;
  versions: KnowledgeDocument[];
  chosen: number;
  onChoose: (version: number) => void;
}

function Choice({ label, versions, chosen, onChoose }: ChoiceProps) {
  const options = versions.map(({ version = 1, state, currentSince }) => ({
    value: String(version),
    label: `Version ${version}`,
    description: `${state}, since ${day(currentSince)}`,
  }));
  return (
    <FormField label={label}>
      <Select
        selectedOption={options.find(({ value }) => value === String(chosen)) ?? null}
        options={options}
        onChange={({ detail }) => onChoose(Number(detail.selectedOption.value))}
      />
    </FormField>
  );
}

function Changes({ diff }: { diff: VersionDiff }) {
  const { safeguards = [], steps = [], changes = [], renumbered = [] } = diff;
  const removed = safeguards.filter(({ kind }) => kind === "removed");
  return (
    <SpaceBetween size="m">
      <DocumentNotes notes={diff.notes} />
      {removed.length ? (
        <Alert type="warning" header="Safeguards were removed">
          <Lines items={removed.map(safeguardText)} />
        </Alert>
      ) : null}
      <Part title="Safeguards" items={safeguards.filter(({ kind }) => kind !== "removed").map(safeguardText)} />
      <Part title="Steps" items={steps.map(stepText)} />
      <Part
        title="Steps with other numbers"
        items={renumbered.map((one) => `${one.firstBefore} to ${one.lastBefore} became ${one.first} to ${one.last}`)}
      />
      <Part title="Metadata" items={changes.map((one) => `${one.field}: ${one.before || "none"} → ${one.after || "none"}`)} />
      <DocumentDiffLines diff={diff} />
    </SpaceBetween>
  );
}

function Part({ title, items }: { title: string; items: string[] }) {
  if (!items.length) return null;
  return (
    <div>
      <Box variant="h3">{title}</Box>
      <Lines items={items} />
    </div>
  );
}

const Lines = ({ items }: { items: string[] }) => (
  <ul style={{ margin: 0, paddingInlineStart: 20, overflowWrap: "anywhere" }}>
    {items.map((item, index) => (
      <li key={`${index} ${item}`}>{item}</li>
    ))}
  </ul>
);

function safeguardText(one: SafeguardChange): string {
  const step = one.step || one.stepBefore;
  const place = step ? ` at step ${step}` : "";
  return `${one.safeguard} ${one.kind}${place}: ${[one.before, one.after].filter(Boolean).join(" → ")}`;
}

function stepText(one: StepChange): string {
  const commands = (one.commands ?? []).map(({ before, after }) => `${before || "nothing"} → ${after || "nothing"}`);
  const title = one.titleBefore ? `${one.titleBefore} → ${one.title}` : one.title;
  const moved = one.moved && one.kind !== "moved" ? ", moved" : "";
  return `${one.name || one.nameBefore} ${one.kind}${moved}: ${title}${commands.length ? ` (${commands.join("; ")})` : ""}`;
}
