/** Finds things by the beginning of their name. */
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Node } from "../api/schema";
import { ThingLink } from "./GraphTerms";
import { Loaded } from "./Loaded";

const MOST = 200;
/** Things that one search of the API gives. */

interface Props {
  text: string;
  type: string;
  onFind: (text: string, type: string) => void;
}

export function GraphFind({ text, type, onFind }: Props) {
  const [prefix, setPrefix] = useState(text);
  const [kind, setKind] = useState(type);
  const found = useQuery({
    queryKey: ["graph", "find", text, type, MOST],
    queryFn: () =>
      data(api.GET("/graph/find", { params: { query: { q: text, limit: MOST, ...(type ? { type } : {}) } } })),
    enabled: text !== "",
  });
  return (
    <SpaceBetween size="m">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (prefix.trim()) onFind(prefix.trim(), kind.trim());
        }}
      >
        <SpaceBetween size="s" direction="horizontal" alignItems="end">
          <FormField label="Find a thing" description="The beginning of its name">
            <Input type="search" value={prefix} placeholder="checkout" clearAriaLabel="Clear" onChange={({ detail }) => setPrefix(detail.value)} />
          </FormField>
          <FormField label="Type" description="Empty for any">
            <Input value={kind} placeholder="service" onChange={({ detail }) => setKind(detail.value)} />
          </FormField>
          <Button variant="primary" formAction="submit">
            Find
          </Button>
        </SpaceBetween>
      </form>
      {text ? <Loaded query={found}>{({ nodes }) => <Things nodes={nodes} />}</Loaded> : null}
    </SpaceBetween>
  );
}

function Things({ nodes }: { nodes: Node[] }) {
  const counter = nodes.length < MOST ? `(${nodes.length})` : `(the first ${MOST})`;
  return (
    <Table
      items={nodes}
      trackBy="key"
      wrapLines
      ariaLabels={{ tableLabel: "Things found" }}
      header={
        <Header variant="h2" counter={counter}>
          Things found
        </Header>
      }
      empty="Nothing has a name that begins so"
      columnDefinitions={[
        { id: "name", header: "Thing", isRowHeader: true, cell: (node) => <ThingLink thing={node.key} names={namesOf(node)} /> },
        { id: "key", header: "Reference", cell: (node) => node.key },
        { id: "known", header: "Known by", cell: (node) => (node.declared ? "a document about it" : "mentions only") },
        { id: "documents", header: "Documents", cell: (node) => new Set(node.evidence?.map((one) => one.documentId)).size },
      ]}
    />
  );
}

function namesOf(node: Node): Record<string, string> {
  return node.properties.name ? { [node.key]: String(node.properties.name) } : {};
}
