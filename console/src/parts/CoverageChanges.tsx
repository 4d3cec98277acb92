/** Binds an alert to a runbook, assigns it, and ends both. */
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { AlertChange, KnownAlert } from "../api/schema";
import { Confirm } from "./Confirm";
import { useCovered } from "./CoverageQueries";
import { PAGING } from "./InboxMore";
import { useTyped } from "./Unsaved";
import { ingested } from "./UploadStates";

type Dialog = "bind" | "unbind" | "assign";

export function CoverageChanges({ alert }: { alert: KnownAlert }) {
  const [open, setOpen] = useState<Dialog>();
  const close = (): void => setOpen(undefined);
  return (
    <>
      <ButtonDropdown
        items={[
          { id: "bind", text: "Bind to a runbook" },
          { id: "assign", text: alert.owner ? "Change its owner" : "Assign" },
          { id: "unbind", text: "End its binding", disabled: alert.binding !== "bound" },
        ]}
        expandToViewport
        ariaLabel={`Actions of ${alert.name}`}
        onItemClick={({ detail }) => setOpen(detail.id as Dialog)}
      >
        Actions
      </ButtonDropdown>
      {open === "bind" ? <Bind alert={alert} close={close} /> : null}
      {open === "unbind" ? <Unbind alert={alert} close={close} /> : null}
      {open === "assign" ? <Assign alert={alert} close={close} /> : null}
    </>
  );
}

interface Props {
  alert: KnownAlert;
  close: () => void;
}

/** Makes a change, waits until it can be seen, and reads the lists again. */
function useAlertChange(change: () => Promise<AlertChange>, close: () => void) {
  const refresh = useCovered();
  return useMutation({
    mutationFn: async () => ingested((await change()).objectKey),
    onSuccess: async () => {
      await refresh();
      close();
    },
  });
}

const useRunbooks = () =>
  useInfiniteQuery({
    queryKey: ["documents", "runbooks"],
    queryFn: ({ pageParam }) => data(api.GET("/documents", { params: { query: { category: "runbooks", limit: 200, after: pageParam } } })),
    ...PAGING,
  });

function Bind({ alert, close }: Props) {
  const [documentId, setDocumentId] = useState("");
  const runbooks = useRunbooks();
  const bind = useAlertChange(() => data(api.POST("/alerts/bindings", { body: { alert: alert.name, documentId } })), close);
  const options = (runbooks.data?.pages ?? [])
    .flatMap((page) => page.documents)
    .map((one) => ({ value: one.documentId, label: one.title, description: one.source }));
  const status = runbooks.isFetching ? "loading" : runbooks.hasNextPage ? "pending" : "finished";
  return (
    <Confirm
      header={`Bind ${alert.name} to a runbook`}
      action="Bind"
      isBusy={bind.isPending}
      isIncomplete={!documentId}
      error={bind.error ?? runbooks.error}
      onConfirm={() => bind.mutate()}
      onDismiss={close}
    >
      <FormField label="Runbook" description="The answer to this alert from now on, before the pages that its rules name">
        <Select
          selectedOption={options.find((one) => one.value === documentId) ?? null}
          options={options}
          placeholder="Choose a runbook"
          filteringType="auto"
          filteringAriaLabel="Find a runbook"
          empty="There are no runbooks"
          statusType={status}
          loadingText="Loading"
          onLoadItems={({ detail }) => {
            if (!detail.firstPage && runbooks.hasNextPage) void runbooks.fetchNextPage();
          }}
          onChange={({ detail }) => setDocumentId(detail.selectedOption.value ?? "")}
        />
      </FormField>
    </Confirm>
  );
}

function Unbind({ alert, close }: Props) {
  const unbind = useAlertChange(() => data(api.POST("/alerts/bindings", { body: { alert: alert.name, documentId: "" } })), close);
  return (
    <Confirm
      header={`End the binding of ${alert.name}?`}
      action="End it"
      isBusy={unbind.isPending}
      error={unbind.error}
      onConfirm={() => unbind.mutate()}
      onDismiss={close}
    >
      <p>The binding that was made here is removed. What its rules, or a page’s title or text, bind it to stays.</p>
    </Confirm>
  );
}

function Assign({ alert, close }: Props) {
  const [owner, setOwner] = useTyped(alert.owner);
  const assign = useAlertChange(() => data(api.POST("/alerts/owners", { body: { alert: alert.name, owner: owner.trim() } })), close);
  return (
    <Confirm
      header={`Assign ${alert.name}`}
      action="Assign"
      isBusy={assign.isPending}
      error={assign.error}
      onConfirm={() => assign.mutate()}
      onDismiss={close}
    >
      <FormField label="Owner" description="A person or a team; empty for nobody">
        <Input value={owner} onChange={({ detail }) => setOwner(detail.value)} />
      </FormField>
    </Confirm>
  );
}
