/** Registers a source, or changes a registered one, by a form of the options that its kind has. */
import Button from "@cloudscape-design/components/button";
import Form from "@cloudscape-design/components/form";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Toggle from "@cloudscape-design/components/toggle";
import type { SourceKind, SourceView } from "../api/schema";
import { Problem } from "./Failed";
import { Loaded } from "./Loaded";
import { SourceOptions } from "./SourceOptions";
import { type Definition, useCategories, useChange, useKinds, useRegister, useTrial } from "./SourceQueries";
import { SourceTrial } from "./SourceTrial";
import { changedOptions, optionsOf, type Values, valuesOf } from "./SourceValues";
import { useTyped } from "./Unsaved";

interface Fields {
  sourceId: string;
  kind: string;
  category: string;
  when: "usual" | "request" | "cron";
  cron: string;
  zone: string;
  enabled: boolean;
  tags: string;
  share: string;
  values: Values;
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
  share: "0.2",
  values: {},
};

function fieldsOf(source: SourceView, kind: SourceKind | undefined): Fields {
  const { sourceId, category, schedule, timeZone, enabled, tags, maxMissingShare } = source;
  const values = kind ? valuesOf(kind, source.options) : {};
  const rest = { tags: tags.join(", "), share: String(maxMissingShare), values };
  return { sourceId, kind: source.kind, category, when: schedule ? "cron" : "request", cron: schedule, zone: timeZone, enabled, ...rest };
}

const tagsOf = (text: string): string[] => text.split(",").map((tag) => tag.trim()).filter(Boolean);

const scheduleOf = ({ when, cron }: Fields): string | undefined => ({ usual: undefined, request: "", cron: cron.trim() })[when];

function definitionOf(fields: Fields, kind: SourceKind): Definition {
  const tags = tagsOf(fields.tags);
  const schedule = scheduleOf(fields);
  return {
    kind: kind.kind,
    enabled: fields.enabled,
    time_zone: fields.zone.trim(),
    options: optionsOf(kind, fields.values),
    max_missing_share: Number(fields.share),
    ...(fields.category ? { category: fields.category } : {}),
    ...(schedule === undefined ? {} : { schedule }),
    ...(tags.length ? { tags } : {}),
  };
}

interface Props {
  /** The source to change; none for a new one. */
  source?: SourceView;
  close: (registered?: SourceView) => void;
}

export function SourceForm({ source, close }: Props) {
  const kinds = useKinds();
  return (
    <Modal visible size="large" header={source ? `Change ${source.sourceId}` : "Add a source"} closeAriaLabel="Close" onDismiss={() => close()}>
      <Loaded query={kinds}>{(found) => <Filled source={source} kinds={found} close={close} />}</Loaded>
    </Modal>
  );
}

function Filled({ source, kinds, close }: Props & { kinds: SourceKind[] }) {
  const kindOf = (name: string): SourceKind | undefined => kinds.find((one) => one.kind === name);
  const [fields, setFields] = useTyped<Fields>(() => (source ? fieldsOf(source, kindOf(source.kind)) : EMPTY));
  const kind = kindOf(fields.kind);
  const saving = useSaving(source, close);
  const trial = useTrial();
  const set = (some: Partial<Fields>): void => {
    setFields((before) => ({ ...before, ...some }));
    trial.reset();
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (kind) saving.save(fields, kind);
      }}
    >
      <Form
        actions={
          <SpaceBetween size="xs" direction="horizontal">
            <Button formAction="none" onClick={() => close()}>
              Cancel
            </Button>
            <Button formAction="none" loading={trial.isPending} disabled={!kind} onClick={() => kind && trial.mutate(definitionOf(fields, kind))}>
              Try it
            </Button>
            <Button
              variant="primary"
              formAction="submit"
              loading={saving.isPending}
              disabled={!fields.sourceId.trim() || !kind}
            >
              {source ? "Save" : "Add"}
            </Button>
          </SpaceBetween>
        }
      >
        <SpaceBetween size="m">
          <Identity fields={fields} set={set} kinds={kinds} isNew={!source} />
          {kind ? (
            <SourceOptions
              key={kind.kind}
              kind={kind}
              values={fields.values}
              set={(name, value) => set({ values: { ...fields.values, [name]: value } })}
            />
          ) : null}
          <Times fields={fields} set={set} isNew={!source} />
          <Documents fields={fields} set={set} />
          <Tried trial={trial} />
          {saving.error ? <Problem error={saving.error} /> : null}
        </SpaceBetween>
      </Form>
    </form>
  );
}

/** Registers a new source, or changes one. */
function useSaving(source: SourceView | undefined, close: Props["close"]) {
  const register = useRegister(close);
  const change = useChange(close);
  const save = (fields: Fields, kind: SourceKind): void => {
    if (!source) return register.mutate({ sourceId: fields.sourceId.trim(), definition: definitionOf(fields, kind) });
    const { category, enabled, zone, share } = fields;
    const body = { category, enabled, timeZone: zone.trim(), schedule: scheduleOf(fields), tags: tagsOf(fields.tags), maxMissingShare: Number(share) };
    change.mutate({ sourceId: source.sourceId, ...body, options: changedOptions(kind, source, fields.values) });
  };
  return { save, isPending: register.isPending || change.isPending, error: register.error ?? change.error };
}

function Tried({ trial }: { trial: ReturnType<typeof useTrial> }) {
  return (
    <>
      {trial.isPending ? (
        <StatusIndicator type="in-progress">The source is asked for its first documents, for 15 seconds at most.</StatusIndicator>
      ) : null}
      {trial.data ? <SourceTrial trial={trial.data} /> : null}
      {trial.error ? <Problem error={trial.error} /> : null}
    </>
  );
}

interface PartProps {
  fields: Fields;
  set: (some: Partial<Fields>) => void;
}

function Identity({ fields, set, kinds, isNew }: PartProps & { kinds: SourceKind[]; isNew: boolean }) {
  const options = kinds.map(({ kind, about }) => ({ value: kind, label: kind, description: about }));
  const choose = (name: string): void => {
    const kind = kinds.find((one) => one.kind === name);
    if (kind) set({ kind: name, category: kind.category, values: valuesOf(kind) });
  };
  return (
    <>
      {isNew ? (
        <>
          <FormField label="Id" constraintText="Up to 48 of a-z, 0-9, - and _; it begins with a letter or a digit.">
            <Input value={fields.sourceId} onChange={({ detail }) => set({ sourceId: detail.value })} />
          </FormField>
          <FormField label="Kind" stretch>
            <Select
              selectedOption={options.find((one) => one.value === fields.kind) ?? null}
              options={options}
              placeholder="Choose a kind"
              filteringType="auto"
              filteringAriaLabel="Find a kind"
              onChange={({ detail }) => choose(detail.selectedOption.value ?? "")}
            />
          </FormField>
        </>
      ) : null}
      <CategoryField value={fields.category} change={(category) => set({ category })} />
    </>
  );
}

interface CategoryProps {
  value: string;
  change: (category: string) => void;
}

export function CategoryField({ value, change }: CategoryProps) {
  const categories = useCategories();
  const options = (categories.data ?? []).map((path) => ({ value: path, label: path }));
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

function Times({ fields, set, isNew }: PartProps & { isNew: boolean }) {
  const times = isNew ? TIMES : TIMES.filter(({ value }) => value !== "usual");
  return (
    <>
      <FormField label="Pulled">
        <Select
          selectedOption={TIMES.find((one) => one.value === fields.when) ?? null}
          options={times}
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

function Documents({ fields, set }: PartProps) {
  return (
    <>
      <FormField label="Tags of all its documents" constraintText="With commas between them">
        <Input value={fields.tags} onChange={({ detail }) => set({ tags: detail.value })} />
      </FormField>
      <FormField label="Guard" description="Nothing is withdrawn if a complete listing misses a larger share of the documents." constraintText="0 to 1">
        <Input type="number" step={0.05} value={fields.share} onChange={({ detail }) => set({ share: detail.value })} />
      </FormField>
    </>
  );
}
