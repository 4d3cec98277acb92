/** Asks why a pattern is not to be used any more, or whether it is to be used again. */
import Box from "@cloudscape-design/components/box";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Pattern } from "../api/schema";
import { Confirm } from "./Confirm";
import { useTyped } from "./Unsaved";

export function LearningRetire({ pattern, onDismiss }: { pattern: Pattern; onDismiss: () => void }) {
  const client = useQueryClient();
  const [reason, setReason] = useTyped("");
  const isRetired = Boolean(pattern.retired);
  const because = isRetired ? "" : reason.trim();
  const retire = useMutation({
    mutationFn: () =>
      data(
        api.POST("/learning/patterns/{patternId}/retirement", {
          params: { path: { patternId: pattern.patternId } },
          body: { because },
        }),
      ),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["learning"] });
      onDismiss();
    },
  });
  return (
    <Confirm
      header={isRetired ? "Use this pattern again?" : "Retire this pattern?"}
      action={isRetired ? "Use it again" : "Retire"}
      isBusy={retire.isPending}
      isIncomplete={!isRetired && !because}
      error={retire.error}
      onConfirm={() => retire.mutate()}
      onDismiss={onDismiss}
    >
      {isRetired ? (
        <Box>{`It was retired: ${pattern.retired}. Its document is put again, and queries return it.`}</Box>
      ) : (
        <>
          <Box>No query returns “{pattern.problem}” any more, and its document is withdrawn. Entries are counted on.</Box>
          <FormField label="Reason">
            <Input value={reason} placeholder="The system is gone" onChange={({ detail }) => setReason(detail.value)} />
          </FormField>
        </>
      )}
    </Confirm>
  );
}
