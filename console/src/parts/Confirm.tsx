/** Asks before something is changed that isn't changed back by one click. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";
import { Problem } from "./Failed";

interface Props {
  header: string;
  /** Text of the button that does it. */
  action: string;
  /** Text of the button that doesn't. */
  dismissal?: string;
  isBusy: boolean;
  /** True while something is missing that the action needs. */
  isIncomplete?: boolean;
  error: Error | null;
  onConfirm: () => void;
  onDismiss: () => void;
  children: ReactNode;
}

export function Confirm({ header, action, dismissal = "Cancel", isBusy, isIncomplete, error, onConfirm, onDismiss, children }: Props) {
  return (
    <Modal
      visible
      header={header}
      closeAriaLabel="Close"
      onDismiss={onDismiss}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onDismiss}>
              {dismissal}
            </Button>
            <Button variant="primary" loading={isBusy} disabled={isIncomplete} onClick={onConfirm}>
              {action}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="m">
        {children}
        {error ? <Problem error={error} /> : null}
      </SpaceBetween>
    </Modal>
  );
}
