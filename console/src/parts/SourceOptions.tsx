/** Fields of the options of a kind of source, as the server describes them. */
import Checkbox from "@cloudscape-design/components/checkbox";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import type { SourceKind, SourceOption } from "../api/schema";
import type { Values } from "./SourceValues";

interface Props {
  kind: SourceKind;
  values: Values;
  set: (name: string, value: string | boolean) => void;
}

/** Options that are needed or that many sources have stand first; the others can be opened. */
export function SourceOptions({ kind, values, set }: Props) {
  const needed = kind.options.filter((one) => isFirst(one));
  const others = kind.options.filter((one) => !isFirst(one));
  const field = (one: SourceOption) => <Option key={one.name} option={one} value={values[one.name] ?? ""} set={(value) => set(one.name, value)} />;
  return (
    <SpaceBetween size="m">
      {needed.map(field)}
      {others.length ? (
        <ExpandableSection headerText={`More options (${others.length})`}>
          <SpaceBetween size="m">{others.map(field)}</SpaceBetween>
        </ExpandableSection>
      ) : null}
    </SpaceBetween>
  );
}

const isFirst = (one: SourceOption): boolean => one.required || one.isSecret || one.name === "user" || (one.type === "texts" && isNone(one.default));
const isNone = (value: unknown): boolean => value === null || value === undefined || (Array.isArray(value) && !value.length);

interface FieldProps {
  option: SourceOption;
  value: string | boolean;
  set: (value: string | boolean) => void;
}

function Option({ option, value, set }: FieldProps) {
  if (option.type === "flag") {
    return (
      <Checkbox checked={value === true} description={option.about} onChange={({ detail }) => set(detail.checked)}>
        {option.name}
      </Checkbox>
    );
  }
  const constraint = option.isSecret ? "A name, not the secret: its value is set by `opx secret set`, or in Secrets Manager." : undefined;
  return (
    <FormField
      label={option.required ? `${option.name} (required)` : option.name}
      description={option.about}
      constraintText={option.type === "texts" ? "One a line" : constraint}
      stretch
    >
      <Text option={option} value={String(value)} set={set} />
    </FormField>
  );
}

function Text({ option, value, set }: FieldProps & { value: string }) {
  const change = ({ detail }: { detail: { value: string } }): void => set(detail.value);
  if (option.type === "texts") {
    return <Textarea rows={Math.min(Math.max(value.split("\n").length, 2), 6)} value={value} onChange={change} />;
  }
  const isNumber = option.type === "integer" || option.type === "number";
  return <Input type={isNumber ? "number" : "text"} step={option.type === "number" ? 0.1 : 1} value={value} onChange={change} />;
}
