/** The shortest path between two things, each step with its proof. */
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { Connection } from "../api/schema";
import { GraphDrawing } from "./GraphDrawing";
import { GraphRelations } from "./GraphRelations";
import { nameOf } from "./GraphTerms";
import { GraphThingInput } from "./GraphThingInput";
import { Loaded } from "./Loaded";

interface Props {
  from: string;
  to: string;
  onFind: (from: string, to: string) => void;
  onOpen: (key: string) => void;
}

export function GraphPath({ from, to, onFind, onOpen }: Props) {
  const [one, setOne] = useState(from);
  const [other, setOther] = useState(to);
  const found = useQuery({
    queryKey: ["graph", "path", from, to],
    queryFn: () => data(api.GET("/graph/path", { params: { query: { from, to } } })),
    enabled: from !== "" && to !== "",
  });
  return (
    <SpaceBetween size="m">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (one.trim() && other.trim()) onFind(one.trim(), other.trim());
        }}
      >
        <SpaceBetween size="s">
          <GraphThingInput label="From" value={one} onChange={setOne} />
          <GraphThingInput label="To" value={other} onChange={setOther} />
          <Button variant="primary" formAction="submit">
            Find the path
          </Button>
        </SpaceBetween>
      </form>
      {from && to ? <Loaded query={found}>{(path) => <Found path={path} onOpen={onOpen} />}</Loaded> : null}
    </SpaceBetween>
  );
}

function Found({ path, onOpen }: { path: Connection; onOpen: (key: string) => void }) {
  const steps = path.steps ?? [];
  const ends = `${nameOf(path.from)} and ${nameOf(path.to)}`;
  const cut = path.cut?.length ? ` Not all relations were followed of ${path.cut.map((key) => nameOf(key)).join(", ")}.` : "";
  if (!path.found) {
    return (
      <Alert type="info" header={`No short path connects ${ends}`}>
        {cut}
      </Alert>
    );
  }
  if (!steps.length) return <Alert type="info">{ends} are the same thing.</Alert>;
  return (
    <SpaceBetween size="m">
      {cut ? <Alert type="info">{cut}</Alert> : null}
      <GraphDrawing
        label={`Drawing of the path between ${ends}. The table below lists its steps.`}
        start={path.from}
        relations={steps}
        onOpen={onOpen}
      />
      <GraphRelations level="h2" title="Steps of the path" edges={steps} passages={path.passages} />
    </SpaceBetween>
  );
}
