/** Patterns that were learned from work, the last updated first. */
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import TextFilter from "@cloudscape-design/components/text-filter";
import Toggle from "@cloudscape-design/components/toggle";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Pattern } from "../api/schema";
import { isRefused, Refused, Success, TYPES } from "./LearningTerms";
import { Loaded } from "./Loaded";

const FEW = 100;
export const MOST_PATTERNS = 500;
/** Patterns that the API gives at most. */

export function LearningPatterns() {
  const [limit, setLimit] = useState(FEW);
  const patterns = useQuery({
    queryKey: ["learning", "patterns", limit],
    queryFn: () => data(api.GET("/learning/patterns", { params: { query: { limit } } })),
    placeholderData: keepPreviousData,
  });
  if (isRefused(patterns.error)) return <Refused error={patterns.error} />;
  return (
    <Loaded query={patterns}>
      {(found) => (
        <Listed
          patterns={found.patterns}
          isBusy={patterns.isFetching}
          onMore={found.patterns.length >= limit && limit < MOST_PATTERNS ? () => setLimit(MOST_PATTERNS) : undefined}
        />
      )}
    </Loaded>
  );
}

interface ListedProps {
  patterns: Pattern[];
  isBusy: boolean;
  onMore?: () => void;
}

function Listed({ patterns, isBusy, onMore }: ListedProps) {
  const [text, setText] = useState("");
  const [isContested, setContested] = useState(false);
  const shown = patterns.filter((one) => matches(one, text) && (!isContested || (one.failureCount > 0 && one.successCount > 0)));
  return (
    <Table
      items={shown}
      trackBy="patternId"
      wrapLines
      ariaLabels={{ tableLabel: "Patterns" }}
      header={
        <Header variant="h2" counter={shown.length === patterns.length ? `(${patterns.length})` : `(${shown.length} of ${patterns.length})`}>
          Patterns
        </Header>
      }
      filter={
        <SpaceBetween size="s" direction="horizontal" alignItems="center">
          <TextFilter
            filteringText={text}
            filteringPlaceholder="Filter what is loaded"
            filteringAriaLabel="Filter patterns"
            onChange={({ detail }) => setText(detail.filteringText)}
          />
          <Toggle checked={isContested} onChange={({ detail }) => setContested(detail.checked)}>
            Only conflicts
          </Toggle>
        </SpaceBetween>
      }
      footer={
        onMore ? (
          <Button loading={isBusy} onClick={onMore}>
            Load more
          </Button>
        ) : null
      }
      empty={patterns.length ? "No pattern matches" : "Nothing was learned yet: a checkpoint turns verified entries into patterns"}
      columnDefinitions={[
        {
          id: "problem",
          header: "Problem",
          isRowHeader: true,
          minWidth: 240,
          cell: (one) => <Link href={`#/learning?pattern=${one.patternId}`}>{one.problem}</Link>,
        },
        { id: "type", header: "Type", cell: (one) => TYPES[one.entryType] },
        { id: "success", header: "Success", minWidth: 160, cell: (one) => <Success pattern={one} /> },
        { id: "about", header: "About", cell: (one) => [...(one.technologies ?? []), one.gateType].filter(Boolean).join(", ") },
        { id: "projects", header: "Projects", cell: (one) => one.projects?.join(", ") },
        { id: "merged", header: "Merged in", cell: (one) => one.merged?.length ?? 0 },
        { id: "last", header: "Last seen", minWidth: 120, cell: (one) => one.embeddedAt.slice(0, 10) },
      ]}
    />
  );
}

function matches(pattern: Pattern, text: string): boolean {
  const { problem, solution, errorMessage, technologies = [], taskTypes = [], gateType } = pattern;
  const all = [problem, solution, errorMessage, gateType, ...technologies, ...taskTypes].join("\n").toLowerCase();
  return all.includes(text.trim().toLowerCase());
}
