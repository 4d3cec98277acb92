/** The last step of long work. */
import StatusIndicator from "@cloudscape-design/components/status-indicator";

export function Progress({ step }: { step: string | undefined }) {
  return (
    <div role="status">
      <StatusIndicator type="in-progress">{step || "started"}</StatusIndicator>
    </div>
  );
}
