/** Registers a source, or replaces a registered one. The server checks kind and options, and names those that exist. */
import Alert from "@cloudscape-design/components/alert";
import AttributeEditor from "@cloudscape-design/components/attribute-editor";
import Autosuggest from "@cloudscape-design/components/autosuggest";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Form from "@cloudscape-design/components/form";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Toggle from "@cloudscape-design/components/toggle";
import { useState } from "react";
import type { SourceView } from "../api/schema";
import { Problem } from "./Failed";
import { type Definition, useCategories, useRegister } from "./SourceQueries";

interface Option {
  name: string;
  value: string;
}

interface Fields {
  sourceId: string;
  kind: string;
  category: string;
  when: "usual" | "request" | "cron";
  cron: string;
  zone: string;
  enabled: boolean;
  tags: string;
  options: Option[];
}

const TIMES = [
  { value: "usual", label: "as usual for the category" },
  { value: "request", label: "on request only" },
  { value: "cron", label: "by a cron expression" },
] as const;

const EMPTY: Fields = {
  sourceId: "",
  kind: "",
  category: "",
  when: "usual",
  cron: "",
  zone: "UTC",
  enabled: true,
  tags: "",
  options: [{ name: "", value: "" }],
};

function fieldsOf(source: SourceView): Fields {
  const { sourceId, kind, category, schedule, timeZone, enabled } = source;
  return { ...EMPTY, sourceId, kind, category, when: schedule ? "cron" : "request", cron: schedule, zone: timeZone, enabled };
}

/** A value as JSON where it is some, else as text. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Options by name; several of one name are a list. */
export function optionsOf(rows: Option[]): Record<string, unknown> {
  const values = new Map<string, unknown[]>();
  for (const { name, value } of rows) {
    if (name.trim()) values.set(name.trim(), [...(values.get(name.trim()) ?? []), valueOf(value.trim())]);
  }
  return Object.fromEntries([...values].map(([name, all]) => [name, all.length > 1 ? all : all[0]]));
}

export function definitionOf(fields: Fields): Definition {
  const tags = fields.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
  const schedule = { usual: undefined, request: "", cron: fields.cron.trim() }[fields.when];
  return {
    kind: fields.kind.trim(),
    enabled: fields.enabled,
    time_zone: fields.zone.trim(),
    options: optionsOf(fields.options),
    ...(fields.category ? { category: fields.category } : {}),
    ...(schedule === undefined ? {} : { schedule }),
    ...(tags.length ? { tags } : {}),
  };
}

interface Props {
  /** The source to replace; none for a new one. */
  source?: SourceView;
  /** Kinds of the existing sources, to choose from. */
  kinds: string[];
  close: (registered?: SourceView) => void;
}

export function SourceForm({ source, kinds, close }: Props) {
  const [fields, setFields] = useState<Fields>(source ? fieldsOf(source) : EMPTY);
  const register = useRegister(close);
  const set = (some: Partial<Fields>): void => setFields((before) => ({ ...before, ...some }));
  const submit = (): void => register.mutate({ sourceId: fields.sourceId.trim(), definition: definitionOf(fields) });
  return (
    <Modal visible size="large" header={source ? `Change ${source.sourceId}` : "Add a source"} closeAriaLabel="Close" onDismiss={() => close()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Form
          actions={
            <SpaceBetween size="xs" direction="horizontal">
              <Button formAction="none" onClick={() => close()}>
                Cancel
              </Button>
              <Button variant="primary" formAction="submit" loading={register.isPending} disabled={!fields.sourceId.trim() || !fields.kind.trim()}>
                {source ? "Replace" : "Add"}
              </Button>
            </SpaceBetween>
          }
        >
          <SpaceBetween size="m">
            {source ? (
              <Alert type="warning">
                The server doesn’t show the options and tags of a source: enter all of them again, as these replace them. If they
                differ, everything is read again.
              </Alert>
            ) : null}
            <Identity fields={fields} set={set} kinds={kinds} isNew={!source} />
            <Times fields={fields} set={set} />
            <Options fields={fields} set={set} />
            {register.error ? <Problem error={register.error} /> : null}
          </SpaceBetween>
        </Form>
      </form>
    </Modal>
  );
}

interface PartProps {
  fields: Fields;
  set: (some: Partial<Fields>) => void;
}

function Identity({ fields, set, kinds, isNew }: PartProps & { kinds: string[]; isNew: boolean }) {
  return (
    <>
      {isNew ? (
        <FormField label="Id" constraintText="Up to 48 of a-z, 0-9, - and _; it begins with a letter or a digit.">
          <Input value={fields.sourceId} onChange={({ detail }) => set({ sourceId: detail.value })} />
        </FormField>
      ) : null}
      <FormField label="Kind" description="Such as crawl, feed or jira. The reply to an unknown one lists all kinds.">
        <Autosuggest
          value={fields.kind}
          options={kinds.map((value) => ({ value }))}
          enteredTextLabel={(value) => `Use ${value}`}
          ariaLabel="Kind"
          clearAriaLabel="Clear"
          onChange={({ detail }) => set({ kind: detail.value })}
        />
      </FormField>
      <CategoryField value={fields.category} usual="the one for this kind" change={(category) => set({ category })} />
    </>
  );
}

interface CategoryProps {
  value: string;
  /** Words for no choice, if that is allowed. */
  usual?: string;
  change: (category: string) => void;
}

export function CategoryField({ value, usual, change }: CategoryProps) {
  const categories = useCategories();
  const none = usual ? [{ value: "", label: usual }] : [];
  const options = [...none, ...(categories.data ?? []).map((path) => ({ value: path, label: path }))];
  return (
    <FormField label="Category" errorText={categories.error?.message}>
      <Select
        selectedOption={options.find((one) => one.value === value) ?? null}
        options={options}
        placeholder="Choose a category"
        filteringType="auto"
        filteringAriaLabel="Find a category"
        statusType={categories.isPending ? "loading" : "finished"}
        loadingText="Loading"
        onChange={({ detail }) => change(detail.selectedOption.value ?? "")}
      />
    </FormField>
  );
}

function Times({ fields, set }: PartProps) {
  return (
    <>
      <FormField label="Pulled">
        <Select
          selectedOption={TIMES.find((one) => one.value === fields.when) ?? null}
          options={TIMES}
          onChange={({ detail }) => set({ when: detail.selectedOption.value as Fields["when"] })}
        />
      </FormField>
      {fields.when === "cron" ? (
        <FormField label="Cron expression" constraintText="Minute, hour, day of month, month, day of week: 0 3 * * 0">
          <Input value={fields.cron} onChange={({ detail }) => set({ cron: detail.value })} />
        </FormField>
      ) : null}
      {fields.when === "request" ? null : (
        <FormField label="Time zone" constraintText="Such as UTC or Europe/Vienna">
          <Input value={fields.zone} onChange={({ detail }) => set({ zone: detail.value })} />
        </FormField>
      )}
      <Toggle checked={fields.enabled} onChange={({ detail }) => set({ enabled: detail.checked })}>
        Enabled: pulled on schedule. A paused source is pulled on request only.
      </Toggle>
    </>
  );
}

function Options({ fields, set }: PartProps) {
  const put = (index: number, some: Partial<Option>): void =>
    set({ options: fields.options.map((one, at) => (at === index ? { ...one, ...some } : one)) });
  return (
    <>
      <Box variant="h3">Options</Box>
      <AttributeEditor
        items={fields.options}
        addButtonText="Add an option"
        removeButtonText="Remove"
        removeButtonAriaLabel={(one) => `Remove the option ${one.name || "without a name"}`}
        additionalInfo="The reply to an unknown option lists those of the kind. Two of one name make a list. Secrets are named, as in token_secret: their values are set by `opx secret set`."
        empty="No options"
        onAddButtonClick={() => set({ options: [...fields.options, { name: "", value: "" }] })}
        onRemoveButtonClick={({ detail }) => set({ options: fields.options.filter((_, index) => index !== detail.itemIndex) })}
        definition={[
          {
            label: "Name",
            control: (one, index) => (
              <Input value={one.name} placeholder="urls" ariaLabel={`Name of option ${index + 1}`} onChange={({ detail }) => put(index, { name: detail.value })} />
            ),
          },
          {
            label: "Value",
            control: (one, index) => (
              <Input value={one.value} placeholder="https://example.org/feed.xml" ariaLabel={`Value of option ${index + 1}`} onChange={({ detail }) => put(index, { value: detail.value })} />
            ),
          },
        ]}
      />
      <FormField label="Tags of all its documents" constraintText="With commas between them">
        <Input value={fields.tags} onChange={({ detail }) => set({ tags: detail.value })} />
      </FormField>
    </>
  );
}
