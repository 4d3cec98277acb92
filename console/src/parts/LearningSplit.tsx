/** Asks before entries, or a merged pattern, are taken out of a pattern. */
import Box from "@cloudscape-design/components/box";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Pattern, PatternChange } from "../api/schema";
import { Confirm } from "./Confirm";

interface Props {
  pattern: Pattern;
  /** Entries that are counted for it, or a pattern that was merged into it. */
  ids: string[];
  onDismiss: () => void;
  onDone: (change: PatternChange) => void;
}

export function LearningSplit({ pattern, ids, onDismiss, onDone }: Props) {
  const client = useQueryClient();
  const split = useMutation({
    mutationFn: () =>
      data(
        api.POST("/learning/patterns/{patternId}/splits", {
          params: { path: { patternId: pattern.patternId } },
          body: { ids },
        }),
      ),
    onSuccess: async (change) => {
      await client.invalidateQueries({ queryKey: ["learning"] });
      onDone(change);
    },
  });
  return (
    <Confirm
      header="Split off?"
      action="Split off"
      isBusy={split.isPending}
      error={split.error}
      onConfirm={() => split.mutate()}
      onDismiss={onDismiss}
    >
      <Box>
        These are counted for “{pattern.problem}” no more; they become a pattern of their own. A merge undoes it.
      </Box>
      <ul>
        {ids.map((id) => (
          <li key={id}>{id}</li>
        ))}
      </ul>
    </Confirm>
  );
}
