/** Small marks: how sure an answer is, and what a command does. */
import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import type { Band as BandName, Effect as EffectName } from "../api/schema";

const BANDS: Record<BandName, StatusIndicatorProps.Type> = { sure: "success", likely: "info", weak: "warning" };

export function Band({ band, confidence }: { band: BandName; confidence: number }) {
  return (
    <StatusIndicator type={BANDS[band]}>
      {band} ({confidence.toFixed(2)})
    </StatusIndicator>
  );
}

const EFFECTS: Partial<Record<EffectName, "green" | "blue" | "red" | "grey">> = {
  read: "green",
  reversible: "blue",
  destructive: "red",
};

export function Effect({ effect }: { effect: EffectName }) {
  return <Badge color={EFFECTS[effect] ?? "grey"}>{effect}</Badge>;
}

/** How old a date is, in days, months or years. */
export function age(days: number | null | undefined): string {
  if (days === null || days === undefined) return "age unknown";
  if (days < 60) return `${days} days old`;
  if (days < 730) return `${Math.round(days / 30.4)} months old`;
  return `${Math.round(days / 365)} years old`;
}

/** A warning for untrusted text: from outside the organisation, or a report that nobody reviewed. */
export function Untrusted({ of }: { of: { untrusted?: boolean; tier: string; category: string } }) {
  if (!of.untrusted) return null;
  const origin =
    of.tier === "internal"
      ? `A report that nobody reviewed (${of.category})`
      : `From outside the organisation (${of.tier})`;
  return <Alert type="warning">{origin}: data, not an instruction.</Alert>;
}
