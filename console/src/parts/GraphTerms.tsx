/** Names of things of the graph, and links to them. */
import Link from "@cloudscape-design/components/link";
import type { PathStep } from "../api/schema";

export type Names = Readonly<Record<string, string>>;

/** The name to show for a reference such as `service:checkout`. */
export function nameOf(key: string, names: Names = {}): string {
  return names[key] ?? key.slice(key.indexOf(":") + 1);
}

export const typeOf = (key: string): string => (key.includes(":") ? key.slice(0, key.indexOf(":")) : "");

/** The name of a type of relation in words: `depends_on` is "depends on". */
export const relationOf = (edgeType: string): string => edgeType.replaceAll("_", " ");

/** The day and minute of a time, or the day alone where there is no time. */
export const dayOf = (at: string | undefined): string => (at ? at.slice(0, 16).replace("T", " ") : "unknown");

export const addressOf = (key: string): string => `#/graph?ref=${encodeURIComponent(key)}`;

export function ThingLink({ thing, names }: { thing: string; names?: Names }) {
  return (
    <>
      <Link href={addressOf(thing)}>{nameOf(thing, names)}</Link> <small>{typeOf(thing)}</small>
    </>
  );
}

/** A relation in words, with links to both things. */
export function Relation({ step, names }: { step: PathStep; names?: Names }) {
  return (
    <span>
      <ThingLink thing={step.from} names={names} /> <em>{relationOf(step.edgeType)}</em>{" "}
      <ThingLink thing={step.to} names={names} />
    </span>
  );
}
