/** The draft of a runbook for a gap. */
import type { GapView } from "../api/schema";

/** A name in lower case that is a part of a path: `why-do-pods-restart`. */
export function slug(text: string): string {
  const words = text.normalize("NFKD").toLowerCase().match(/[a-z0-9]+/g) ?? [];
  return words.join("-").slice(0, 60).replace(/-+$/, "") || "draft";
}

export const suggestedSource = (gap: GapView): string => `runbooks/${slug(gap.absent?.name ?? gap.question)}.md`;

const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

/** Plain words in Markdown: recorded questions are text of others. */
const plain = (text: string): string => oneLine(text).replace(/[\\`*_[\]<>#|~]/g, "\\$&");

/** A Markdown skeleton with the gap's questions, whose answers are left to its author. */
export function skeleton(gap: GapView): string {
  const facts = [
    gap.owner ? `owner: ${JSON.stringify(oneLine(gap.owner))}` : "",
    gap.services.length ? `services: ${JSON.stringify(gap.services.map(oneLine))}` : "",
  ].filter(Boolean);
  const questions = [...new Set([gap.question, ...gap.examples])].map((one) => `- ${plain(one)}`);
  const missing = gap.missing.map((one) => `- missing: ${plain(one)}`);
  return [
    ...(facts.length ? ["---", ...facts, "---", ""] : []),
    `# ${plain(gap.absent?.name ?? gap.question)}`,
    "",
    "## When to use it",
    "",
    ...questions,
    ...missing,
    "",
    "## Check",
    "",
    "1. ",
    "",
    "## Fix",
    "",
    "1. ",
    "",
    "## Verify",
    "",
    "1. ",
    "",
    "## Roll back",
    "",
    "1. ",
    "",
    "## Escalate to",
    "",
    gap.owner ? plain(gap.owner) : "",
    "",
  ].join("\n");
}
