/** Asks which pattern to count for this one, and does it. */
import Box from "@cloudscape-design/components/box";
import FormField from "@cloudscape-design/components/form-field";
import Select from "@cloudscape-design/components/select";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Pattern, PatternChange } from "../api/schema";
import { Confirm } from "./Confirm";
import { MOST_PATTERNS } from "./LearningPatterns";

interface Props {
  pattern: Pattern;
  onDismiss: () => void;
  onDone: (change: PatternChange) => void;
}

export function LearningMerge({ pattern, onDismiss, onDone }: Props) {
  const client = useQueryClient();
  const [otherId, setOtherId] = useState("");
  const patterns = useQuery({
    queryKey: ["learning", "patterns", MOST_PATTERNS],
    queryFn: () => data(api.GET("/learning/patterns", { params: { query: { limit: MOST_PATTERNS } } })),
  });
  const merge = useMutation({
    mutationFn: () =>
      data(
        api.POST("/learning/patterns/{patternId}/merges", {
          params: { path: { patternId: pattern.patternId } },
          body: { otherId },
        }),
      ),
    onSuccess: async (change) => {
      await client.invalidateQueries({ queryKey: ["learning"] });
      onDone(change);
    },
  });
  const options = (patterns.data?.patterns ?? [])
    .filter((one) => canMerge(one, pattern))
    .map((one) => ({ value: one.patternId, label: one.problem, description: one.solution.slice(0, 120) }));
  return (
    <Confirm
      header="Merge another pattern into this one?"
      action="Merge"
      isBusy={merge.isPending}
      isIncomplete={!otherId}
      error={merge.error ?? patterns.error}
      onConfirm={() => merge.mutate()}
      onDismiss={onDismiss}
    >
      <Box>
        Everything that is counted for the other pattern is counted for “{pattern.problem}”, and the other is shown no more. A
        split undoes it.
      </Box>
      <FormField label="The other pattern" description="Of the same type and review">
        <Select
          options={options}
          selectedOption={options.find((one) => one.value === otherId) ?? null}
          placeholder="Choose a pattern"
          filteringType="auto"
          filteringAriaLabel="Filter patterns"
          statusType={patterns.isPending ? "loading" : "finished"}
          loadingText="Loading patterns"
          empty="There is no other pattern of this type"
          onChange={({ detail }) => setOtherId(detail.selectedOption.value ?? "")}
        />
      </FormField>
    </Confirm>
  );
}

const canMerge = (one: Pattern, into: Pattern): boolean =>
  one.patternId !== into.patternId && one.entryType === into.entryType && one.gateType === into.gateType && one.scope === into.scope;
