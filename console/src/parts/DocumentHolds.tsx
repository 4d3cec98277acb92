/** Legal holds that cover a document: they forbid its removal. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { api, data } from "../api/client";
import type { Hold, KnowledgeDocument } from "../api/schema";
import { HOLDS, useAddHold, useLiftHold } from "./DocumentChanges";
import { Confirm } from "./Confirm";
import { minute } from "./DocumentMarks";
import { Loaded } from "./Loaded";
import { useTyped } from "./Unsaved";

export const useHolds = (isLifted: boolean) =>
  useQuery({
    queryKey: [...HOLDS, isLifted],
    queryFn: () => data(api.GET("/holds", { params: { query: { lifted: isLifted } } })),
  });

/** True if a hold forbids the removal of a document. */
export function covers(hold: Hold, document: KnowledgeDocument): boolean {
  const { within = "", category = "", source = "" } = hold;
  const scope = scopeOf(document);
  if (source && (source !== document.key || scope !== within)) return false;
  return isBelow(scope, within) && isBelow(document.category, category);
}

const isBelow = (path: string, folder: string): boolean => !folder || path === folder || path.startsWith(`${folder}/`);

/** The key of a document's scope. */
export function scopeOf({ scope }: KnowledgeDocument): string {
  if (!scope.clientId) return "global";
  if (scope.groupId) return `client:${scope.clientId}/group:${scope.groupId}`;
  return `client:${scope.clientId}${scope.projectId ? `/project:${scope.projectId}` : ""}`;
}

export function DocumentHolds({ document }: { document: KnowledgeDocument }) {
  const inForce = useHolds(false);
  const lifted = useHolds(true);
  const [adding, setAdding] = useState(false);
  const [lifting, setLifting] = useState<Hold>();
  const add = <Button onClick={() => setAdding(true)}>Add a hold</Button>;
  return (
    <SpaceBetween size="l">
      <Loaded query={inForce}>
        {({ holds }) => (
          <HoldTable
            title="Holds in force"
            holds={holds.filter((hold) => covers(hold, document))}
            actions={add}
            lift={setLifting}
          />
        )}
      </Loaded>
      <Loaded query={lifted}>
        {({ holds }) => <HoldTable title="Lifted holds" holds={holds.filter((hold) => covers(hold, document))} />}
      </Loaded>
      {adding ? <Add document={document} onClose={() => setAdding(false)} /> : null}
      {lifting ? <Lift hold={lifting} onClose={() => setLifting(undefined)} /> : null}
    </SpaceBetween>
  );
}

interface HoldTableProps {
  title: string;
  holds: Hold[];
  actions?: ReactNode;
  lift?: (hold: Hold) => void;
}

function HoldTable({ title, holds, actions, lift }: HoldTableProps) {
  const columns: TableProps.ColumnDefinition<Hold>[] = [
    { id: "reason", header: "Reason", isRowHeader: true, minWidth: 160, cell: (one) => one.reason },
    { id: "what", header: "Covers", cell: whatOf },
    { id: "since", header: "Since", minWidth: 170, cell: (one) => minute(one.since) },
    { id: "by", header: "By", cell: (one) => one.by },
    lift
      ? {
          id: "lift",
          header: "Lift",
          minWidth: 100,
          cell: (one) => (
            <Button ariaLabel={`Lift the hold: ${one.reason}`} onClick={() => lift(one)}>
              Lift
            </Button>
          ),
        }
      : { id: "lifted", header: "Lifted", minWidth: 200, cell: (one) => `${minute(one.lifted)} by ${one.liftedBy}` },
  ];
  return (
    <Table
      variant="embedded"
      wrapLines
      header={
        <Header variant="h2" counter={`(${holds.length})`} actions={actions}>
          {title}
        </Header>
      }
      columnDefinitions={columns}
      items={holds}
      trackBy={(one) => `${one.holdId} ${one.lifted}`}
      empty={<Box>None</Box>}
      ariaLabels={{ tableLabel: title }}
    />
  );
}

function whatOf({ source, category, within }: Hold): string {
  const what = source ? "this document" : category ? `category ${category}` : "everything";
  return source ? what : `${what} of ${within || "everybody"}`;
}

function Add({ document, onClose }: { document: KnowledgeDocument; onClose: () => void }) {
  const [reason, setReason] = useTyped("");
  const add = useAddHold(document);
  return (
    <Confirm
      header="Add a legal hold"
      action="Add the hold"
      isBusy={add.isPending}
      error={add.error}
      isIncomplete={reason.trim() === ""}
      onConfirm={() => add.mutate(reason.trim(), { onSuccess: onClose })}
      onDismiss={onClose}
    >
      <FormField label="Reason" description="Such as the name of the matter. Until the hold is lifted, nobody can delete this document.">
        <Input value={reason} onChange={({ detail }) => setReason(detail.value)} />
      </FormField>
    </Confirm>
  );
}

function Lift({ hold, onClose }: { hold: Hold; onClose: () => void }) {
  const lift = useLiftHold();
  return (
    <Confirm
      header="Lift this hold?"
      action="Lift the hold"
      isBusy={lift.isPending}
      error={lift.error}
      onConfirm={() => lift.mutate(hold.holdId ?? "", { onSuccess: onClose })}
      onDismiss={onClose}
    >
      <div>
        “{hold.reason}” ends for {whatOf(hold)}. What it covers can be deleted and expires again. The hold is kept as a record.
      </div>
    </Confirm>
  );
}
