/** A thing of the graph: facts, what is around it, its relations, and what changed. */
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { NodeView } from "../api/schema";
import { GraphChanges } from "./GraphChanges";
import { GraphNeighbours } from "./GraphNeighbours";
import { GraphProof } from "./GraphProof";
import { GraphRelations } from "./GraphRelations";
import { nameOf, relationOf } from "./GraphTerms";
import { Loaded } from "./Loaded";

const FEW = 100;
const MOST = 500;
/** Relations that the API gives at most. */

interface Props {
  /** A reference, or a name that only one thing has. */
  thing: string;
  view: string;
  onView: (view: string) => void;
  onOpen: (key: string) => void;
}

export function GraphThing({ thing, view, onView, onOpen }: Props) {
  const [limit, setLimit] = useState(FEW);
  const shown = useQuery({
    queryKey: ["graph", "node", thing, limit],
    queryFn: () => data(api.GET("/graph/nodes", { params: { query: { ref: thing, limit } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={shown}>
      {(node) => (
        <SpaceBetween size="m">
          <Facts shown={node} />
          <Tabs
            ariaLabel="Views of the thing"
            i18nStrings={{ scrollLeftAriaLabel: "Show the tabs before", scrollRightAriaLabel: "Show the tabs after" }}
            activeTabId={view}
            onChange={({ detail }) => onView(detail.activeTabId)}
            tabs={[
              { id: "around", label: "Around it", content: <GraphNeighbours key={node.node.key} thing={node.node.key} onOpen={onOpen} /> },
              {
                id: "relations",
                label: "Relations",
                content: (
                  <GraphRelations
                    of={node.node.key}
                    title={`Relations of ${nameOf(node.node.key, node.names)}`}
                    edges={node.edges ?? []}
                    passages={node.passages}
                    names={node.names}
                    more={node.more}
                    isBusy={shown.isFetching}
                    onMore={limit < MOST ? () => setLimit(MOST) : undefined}
                  />
                ),
              },
              { id: "changes", label: "Changes", content: <GraphChanges key={node.node.key} thing={node.node.key} /> },
            ]}
          />
        </SpaceBetween>
      )}
    </Loaded>
  );
}

function Facts({ shown }: { shown: NodeView }) {
  const { node } = shown;
  const name = String(node.properties.name ?? nameOf(node.key, shown.names));
  const others = Object.entries(node.properties).filter(([key]) => key !== "name");
  return (
    <Container header={<Header variant="h2">{name}</Header>}>
      <SpaceBetween size="s">
        <KeyValuePairs
          columns={3}
          items={[
            { label: "Type", value: node.type },
            { label: "Reference", value: node.key },
            { label: "Known by", value: node.declared ? "a document about it, or a list of it" : "mentions only" },
            { label: "Other names", value: shown.aliases?.join(", ") || "none" },
            ...others.map(([key, value]) => ({ label: relationOf(key), value: String(value) })),
          ]}
        />
        <GraphProof of={name} evidence={node.evidence ?? []} passages={shown.passages} />
      </SpaceBetween>
    </Container>
  );
}
