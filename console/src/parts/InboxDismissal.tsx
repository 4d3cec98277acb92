/** Marks a contradiction as none. */
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import { useMutation } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { DocumentContradiction } from "../api/schema";
import { Confirm } from "./Confirm";
import { useTyped } from "./Unsaved";

export function InboxDismissal({ one, onClose }: { one: DocumentContradiction; onClose: () => void }) {
  const [because, setBecause] = useTyped("");
  const { contradictionId } = one;
  const dismiss = useMutation({
    mutationFn: () =>
      data(api.POST("/contradictions/{contradictionId}/dismissal", { params: { path: { contradictionId } }, body: { because } })),
    onSuccess: onClose,
  });
  return (
    <Confirm
      header="Not a contradiction?"
      action="Mark as none"
      isBusy={dismiss.isPending}
      error={dismiss.error}
      onConfirm={() => dismiss.mutate()}
      onDismiss={onClose}
    >
      <div>It isn’t shown again until one of the two documents changes.</div>
      <FormField label="Reason" description="For those who wonder later; optional.">
        <Input value={because} onChange={({ detail }) => setBecause(detail.value)} />
      </FormField>
    </Confirm>
  );
}
