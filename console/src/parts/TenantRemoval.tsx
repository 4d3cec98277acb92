/** Removes a client entirely, after its id was typed, and serves a removed one again. */
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { AS_JOB } from "../api/jobs";
import { Confirm } from "./Confirm";
import { Progress, useWork } from "./Progress";

export function Removal({ clientId, isBegun }: { clientId: string; isBegun: boolean }) {
  const [isAsking, setAsking] = useState(false);
  const [typed, setTyped] = useState("");
  const { step, stop, follow } = useWork();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => {
      const call = api.DELETE("/clients/{clientId}", { params: { path: { clientId } }, headers: AS_JOB });
      return follow(call);
    },
    onSuccess: () => setAsking(false),
    onSettled: () => queries.invalidateQueries({ queryKey: ["clients"] }),
  });
  return (
    <>
      <Button onClick={() => setAsking(true)}>{isBegun ? "Go on removing" : "Off-board"}</Button>
      {isAsking ? (
        <Confirm
          header={`Remove everything of ${clientId}?`}
          action="Remove everything"
          isBusy={remove.isPending}
          isIncomplete={typed !== clientId}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onDismiss={() => setAsking(false)}
        >
          <Alert type="warning">
            Its documents, passages, gaps, outcomes, patterns and records are gone for good; from now on nothing is ingested or
            answered for it. Afterwards every store is counted again, and the report is kept as proof.
          </Alert>
          <FormField label="Type the client’s id">
            <Input value={typed} disabled={remove.isPending} onChange={({ detail }) => setTyped(detail.value)} />
          </FormField>
          {remove.isPending ? <Progress step={step} stop={stop} /> : null}
        </Confirm>
      ) : null}
    </>
  );
}

export function ServeAgain({ clientId }: { clientId: string }) {
  const [isAsking, setAsking] = useState(false);
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: () => data(api.PUT("/clients/{clientId}", { params: { path: { clientId } }, body: {} })),
    onSuccess: async () => {
      setAsking(false);
      await queries.invalidateQueries({ queryKey: ["clients"] });
    },
  });
  return (
    <>
      <Button onClick={() => setAsking(true)}>Serve it again</Button>
      {isAsking ? (
        <Confirm
          header={`Serve ${clientId} again?`}
          action="Serve it again"
          isBusy={add.isPending}
          error={add.error}
          onConfirm={() => add.mutate()}
          onDismiss={() => setAsking(false)}
        >
          It starts empty: what was removed doesn’t come back.
        </Confirm>
      ) : null}
    </>
  );
}
