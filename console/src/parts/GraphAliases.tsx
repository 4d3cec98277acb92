/** Other names of things: list, add, remove. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Alias } from "../api/schema";
import { Problem } from "./Failed";
import { Confirm } from "./Confirm";
import { dayOf, ThingLink } from "./GraphTerms";
import { GraphThingInput } from "./GraphThingInput";
import { Loaded } from "./Loaded";
import { useTyped } from "./Unsaved";

const MOST = 1000;
/** Aliases that the API gives at most. */

export function GraphAliases() {
  const client = useQueryClient();
  const [leaving, setLeaving] = useState<Alias | null>(null);
  const aliases = useQuery({
    queryKey: ["graph", "aliases"],
    queryFn: () => data(api.GET("/graph/aliases", { params: { query: { limit: MOST } } })),
  });
  const remove = useMutation({
    mutationFn: (alias: string) => data(api.DELETE("/graph/aliases", { params: { query: { alias } } })),
    onSuccess: async () => {
      setLeaving(null);
      await client.invalidateQueries({ queryKey: ["graph"] });
    },
  });
  return (
    <SpaceBetween size="m">
      <Add />
      <Loaded query={aliases}>
        {(found) => (
          <Listed
            aliases={found.aliases}
            onRemove={(alias) => {
              remove.reset();
              setLeaving(alias);
            }}
          />
        )}
      </Loaded>
      {leaving ? (
        <Confirm
          header="Remove this alias?"
          action="Remove"
          isBusy={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate(leaving.alias)}
          onDismiss={() => setLeaving(null)}
        >
          <Box>
            “{leaving.alias}” will not stand for “{leaving.canonical}” any more: what documents state about it is filed under its
            own name.
          </Box>
        </Confirm>
      ) : null}
    </SpaceBetween>
  );
}

function Listed({ aliases, onRemove }: { aliases: Alias[]; onRemove: (alias: Alias) => void }) {
  return (
    <Table
      items={aliases}
      wrapLines
      ariaLabels={{ tableLabel: "Aliases" }}
      header={
        <Header variant="h2" counter={aliases.length < MOST ? `(${aliases.length})` : `(the first ${MOST})`}>
          Aliases
        </Header>
      }
      empty="No thing has another name"
      columnDefinitions={[
        { id: "alias", header: "Alias", isRowHeader: true, cell: (one) => one.alias },
        { id: "canonical", header: "Stands for", cell: (one) => <ThingLink thing={one.canonical} /> },
        { id: "by", header: "Stated by", cell: (one) => statedBy(one) },
        { id: "area", header: "Scope", cell: (one) => one.area },
        { id: "seen", header: "Last seen", minWidth: 130, cell: (one) => dayOf(one.lastSeenAt) },
        {
          id: "remove",
          header: "Remove",
          cell: (one) =>
            one.isSet ? (
              <Button ariaLabel={`Remove the alias ${one.alias}`} onClick={() => onRemove(one)}>
                Remove
              </Button>
            ) : (
              "change the documents"
            ),
        },
      ]}
    />
  );
}

function statedBy({ isSet, setBy, documents }: Alias): string {
  const person = isSet ? setBy || "a person" : "";
  const pages = documents ? `${documents} ${documents === 1 ? "document" : "documents"}` : "";
  return [person, pages].filter(Boolean).join(", ");
}

function Add() {
  const client = useQueryClient();
  const [alias, setAlias] = useTyped("");
  const [canonical, setCanonical] = useTyped("");
  const add = useMutation({
    mutationFn: () => data(api.POST("/graph/aliases", { body: { alias: alias.trim(), canonical: canonical.trim() } })),
    onSuccess: async () => {
      setAlias("");
      setCanonical("");
      await client.invalidateQueries({ queryKey: ["graph"] });
    },
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (alias.trim() && canonical.trim()) add.mutate();
      }}
    >
      <SpaceBetween size="s">
        <FormField label="Other name" description="With its type, as in service:mailer" stretch>
          <Input value={alias} placeholder="service:mailer" onChange={({ detail }) => setAlias(detail.value)} />
        </FormField>
        <GraphThingInput label="Stands for" value={canonical} onChange={setCanonical} />
        <Button formAction="submit" loading={add.isPending}>
          Add the alias
        </Button>
        {add.error ? <Problem error={add.error} /> : null}
        {add.data ? (
          <StatusIndicator>
            {add.data.alias} stands for {add.data.canonical}
          </StatusIndicator>
        ) : null}
      </SpaceBetween>
    </form>
  );
}
