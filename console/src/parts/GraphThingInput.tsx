/** An input for a thing of the graph, which suggests things while one types. */
import Autosuggest from "@cloudscape-design/components/autosuggest";
import FormField from "@cloudscape-design/components/form-field";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, data } from "../api/client";
import { nameOf, typeOf } from "./GraphTerms";

interface Props {
  label: string;
  description?: string;
  value: string;
  onChange: (value: string) => void;
  /** Called when a suggestion is chosen, or Enter is pressed. */
  onChoose?: (value: string) => void;
}

const DELAY = 200;
/** Milliseconds without a key before suggestions are requested. */

const SUGGESTED = 20;

export function GraphThingInput({ label, description, value, onChange, onChoose }: Props) {
  const prefix = useSettled(value.trim());
  const found = useQuery({
    queryKey: ["graph", "find", prefix, "", SUGGESTED],
    queryFn: () => data(api.GET("/graph/find", { params: { query: { q: prefix, limit: SUGGESTED } } })),
    enabled: prefix !== "",
  });
  const options = (found.data?.nodes ?? []).map((node) => ({
    value: node.key,
    label: node.key,
    description: String(node.properties.name ?? nameOf(node.key)),
    labelTag: typeOf(node.key),
  }));
  return (
    <FormField label={label} description={description} stretch>
      <Autosuggest
        value={value}
        options={options}
        filteringType="manual"
        placeholder="service:checkout"
        clearAriaLabel="Clear"
        enteredTextLabel={(entered) => `Use “${entered}”`}
        statusType={found.error ? "error" : found.isFetching ? "loading" : "finished"}
        loadingText="Looking for things"
        errorText={found.error?.message}
        errorIconAriaLabel="Error"
        empty={prefix ? "Nothing has such a name" : "Type the beginning of a name"}
        onChange={({ detail }) => onChange(detail.value)}
        onSelect={({ detail }) => {
          onChange(detail.value);
          onChoose?.(detail.value);
        }}
      />
    </FormField>
  );
}

/** A value once it has not changed for a moment. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), DELAY);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
