/** Copies the permanent address of an answer. The question is in the address alone: the audit log has only its hash. */
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";

export const answerPath = (receiptId: string, question: string): string =>
  `/answers/${receiptId}${question ? `?q=${encodeURIComponent(question)}` : ""}`;

export function AskLink({ receiptId, question }: { receiptId: string; question: string }) {
  const { origin, pathname } = window.location;
  return (
    <CopyToClipboard
      copyButtonText="Copy link"
      copySuccessText="The link is copied: it shows this answer as it was given"
      copyErrorText="The browser didn't allow it"
      textToCopy={`${origin}${pathname}#${answerPath(receiptId, question)}`}
    />
  );
}
