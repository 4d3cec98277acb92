/** Projects of a client and the groups in which they share documents: a move shows first who will see more or less. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import type { ProjectMove, ProjectPlace } from "../api/schema";
import { Confirm } from "./Confirm";
import { Loaded } from "./Loaded";
import { useTyped } from "./Unsaved";

export function TenantProjects({ clientId }: { clientId: string }) {
  const projects = useQuery({
    queryKey: ["clients", clientId, "projects"],
    queryFn: () => data(api.GET("/projects/{clientId}", { params: { path: { clientId } } })),
  });
  return (
    <Loaded query={projects}>
      {({ projects: found }) => (
        <Table
          items={found}
          trackBy="projectId"
          ariaLabels={{ tableLabel: "Projects" }}
          header={
            <Header variant="h2" counter={`(${found.length})`} description="Projects of a group see each other’s documents.">
              Projects
            </Header>
          }
          empty="It has no projects: its documents are the whole client’s"
          columnDefinitions={[
            { id: "project", header: "Project", isRowHeader: true, cell: (one) => one.projectId },
            { id: "group", header: "Group", cell: (one) => one.groupId || "none" },
            { id: "move", header: "Move", cell: (one) => <Move clientId={clientId} project={one} /> },
          ]}
        />
      )}
    </Loaded>
  );
}

function Move({ clientId, project }: { clientId: string; project: ProjectPlace }) {
  const [isOpen, setOpen] = useState(false);
  const [groupId, setGroup, release] = useTyped(project.groupId);
  const queries = useQueryClient();
  const path = { clientId, projectId: project.projectId };
  const close = (): void => {
    release();
    setOpen(false);
  };
  const preview = useMutation({
    mutationFn: (group: string) =>
      data(api.GET("/projects/{clientId}/{projectId}/move", { params: { path, query: { groupId: group } } })),
  });
  const move = useMutation({
    mutationFn: () => data(api.PUT("/projects/{clientId}/{projectId}", { params: { path }, body: { groupId: groupId.trim() } })),
    onSuccess: async () => {
      close();
      preview.reset();
      await queries.invalidateQueries({ queryKey: ["clients", clientId] });
    },
  });
  return (
    <>
      <Button variant="inline-link" ariaLabel={`Move ${project.projectId}`} onClick={() => setOpen(true)}>
        Move
      </Button>
      {isOpen ? (
        <Confirm
          header={`Move ${project.projectId} to another group`}
          action={preview.data ? "Move" : "Show what changes"}
          isBusy={move.isPending || preview.isPending}
          isIncomplete={groupId.trim() === project.groupId}
          error={move.error ?? preview.error}
          onConfirm={() => (preview.data ? move.mutate() : preview.mutate(groupId.trim()))}
          onDismiss={close}
        >
          <FormField label="Group" description="Empty takes it out of its group">
            <Input
              value={groupId}
              onChange={({ detail }) => {
                setGroup(detail.value);
                preview.reset();
              }}
            />
          </FormField>
          {preview.data ? <Changes move={preview.data} /> : null}
        </Confirm>
      ) : null}
    </>
  );
}

function Changes({ move }: { move: ProjectMove }) {
  if (!move.changes.length) return <Box>Nobody sees more or less than before.</Box>;
  return (
    <SpaceBetween size="xs">
      <Box variant="awsui-key-label">What changes</Box>
      <ul aria-label="What changes" style={{ margin: 0, paddingInlineStart: 20 }}>
        {move.changes.map((one) => (
          <li key={one.projectId}>
            {one.projectId}
            {one.gained.length ? ` sees also ${one.gained.join(", ")}` : ""}
            {one.lost.length ? ` no longer sees ${one.lost.join(", ")}` : ""}
          </li>
        ))}
      </ul>
    </SpaceBetween>
  );
}
