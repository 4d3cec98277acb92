/** Values of a source's options: as a form holds them, and as the API takes them. */
import type { SourceKind, SourceOption, SourceView } from "../api/schema";

/** Texts of the fields by option; a list has one a line. */
export type Values = Record<string, string | boolean>;

export const lines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** A value of the API, or the default of its option, as its field shows it. */
function shown(option: SourceOption, value: unknown): string | boolean {
  if (option.type === "flag") return value === true;
  if (Array.isArray(value)) return value.join("\n");
  return value === undefined || value === null ? "" : String(value);
}

/** Values of a form: those of a source, else the defaults of its kind. */
export const valuesOf = (kind: SourceKind, given: Record<string, unknown> = {}): Values =>
  Object.fromEntries(kind.options.map((one) => [one.name, shown(one, given[one.name] ?? one.default)]));

/** The options that differ from the defaults. Those that are needed and empty are left out, so that the server names them. */
export function optionsOf(kind: SourceKind, values: Values): Record<string, unknown> {
  const chosen = kind.options.filter((one) => {
    const value = values[one.name] ?? "";
    if (value === shown(one, one.default)) return false;
    return value !== "" || (!one.required && one.type !== "integer" && one.type !== "number");
  });
  return Object.fromEntries(chosen.map((one) => [one.name, sent(one, values[one.name] ?? "")]));
}

function sent(option: SourceOption, value: string | boolean): unknown {
  if (typeof value === "boolean") return value;
  if (option.type === "texts") return lines(value);
  const isNumber = option.type === "integer" || option.type === "number";
  return isNumber && !Number.isNaN(Number(value)) ? Number(value) : value.trim();
}

/** Changes of a source's options: null for those that have their default again. */
export function changedOptions(kind: SourceKind, source: SourceView, values: Values): Record<string, unknown> {
  const before = source.options as Record<string, unknown>;
  const after = optionsOf(kind, values);
  const removed = kind.options.filter((one) => one.name in before && !(one.name in after)).map((one) => [one.name, null]);
  const changed = Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
  return Object.fromEntries([...removed, ...changed]);
}
