/** Asks before something is done, and shows its failure. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";
import { Problem } from "./Failed";

interface Props {
  header: string;
  action: string;
  isBusy: boolean;
  error: unknown;
  canDo?: boolean;
  onDo: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function DocumentConfirm({ header, action, isBusy, error, canDo = true, onDo, onClose, children }: Props) {
  return (
    <Modal
      visible
      header={header}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              Cancel
            </Button>
            <Button variant="primary" loading={isBusy} disabled={!canDo} onClick={onDo}>
              {action}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="m">
        <div>{children}</div>
        {error ? <Problem error={error} /> : null}
      </SpaceBetween>
    </Modal>
  );
}
