/** Marks a document as reviewed. */
import FormField from "@cloudscape-design/components/form-field";
import Select from "@cloudscape-design/components/select";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { Confirm } from "./Confirm";
import { failureOf, settled } from "./UploadStates";

const SECONDS = 60;
const SPANS = [
  { value: "30", label: "in 30 days" },
  { value: "90", label: "in 90 days" },
  { value: "180", label: "in half a year" },
  { value: "365", label: "in a year" },
];

interface Props {
  documentId: string;
  title: string;
  onClose: () => void;
}

function useReview(documentId: string, onClose: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (days: number) => {
      const params = { path: { documentId } };
      const { objectKey } = await data(api.POST("/documents/{documentId}/review", { params, body: { days } }));
      return settled(objectKey, await failureOf(objectKey), SECONDS);
    },
    onSuccess: async () => {
      await Promise.all([["reviews"], ["document"], ["documents"]].map((queryKey) => queries.invalidateQueries({ queryKey })));
      onClose();
    },
  });
}

export function ReviewDialog({ documentId, title, onClose }: Props) {
  const [days, setDays] = useState("180");
  const review = useReview(documentId, onClose);
  return (
    <Confirm
      header="Mark as reviewed?"
      action="Mark as reviewed"
      isBusy={review.isPending}
      error={review.error}
      onConfirm={() => review.mutate(Number(days))}
      onDismiss={onClose}
    >
      <div>You state that “{title}” holds as it is. Another text needs another review.</div>
      <FormField label="To be reviewed again">
        <Select
          selectedOption={SPANS.find((one) => one.value === days) ?? null}
          options={SPANS}
          onChange={({ detail }) => setDays(detail.selectedOption.value ?? days)}
        />
      </FormField>
    </Confirm>
  );
}
