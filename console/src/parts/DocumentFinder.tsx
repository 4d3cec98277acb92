/** Opens a document by the beginning of its id, its title, path or address. */
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { api, data } from "../api/client";

async function idOf(document: string): Promise<string> {
  const query = { document, part: "outline", maxTokens: 10 };
  return (await data(api.GET("/reading", { params: { query } }))).documentId;
}

export function DocumentFinder() {
  const [text, setText] = useState("");
  const navigate = useNavigate();
  const find = useMutation({ mutationFn: idOf, onSuccess: (id) => void navigate(`/documents/${id}`) });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) find.mutate(text.trim());
      }}
    >
      <FormField
        label="Open a document"
        description="By its title, path, address, or the beginning of its id"
        errorText={find.error?.message}
        stretch
      >
        <SpaceBetween size="xs" direction="horizontal">
          <Input value={text} type="search" clearAriaLabel="Clear" onChange={({ detail }) => setText(detail.value)} />
          <Button formAction="submit" loading={find.isPending}>
            Open
          </Button>
        </SpaceBetween>
      </FormField>
    </form>
  );
}
