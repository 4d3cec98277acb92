/** What a page shows whose reader isn't signed in, or not any more. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState, useSyncExternalStore } from "react";
import type { Session } from "../api/client";

/** In place of the page. */
export function NotSignedIn({ reason }: { reason: string }) {
  return (
    <Box padding="xxl">
      <main>
        <Box variant="h1">OPX Knowledge</Box>
        <Alert type="info" action={<Button onClick={() => window.location.reload()}>Sign in</Button>}>
          {reason}
        </Alert>
      </main>
    </Box>
  );
}

/** Above the page, once its session has ended. What was typed stays until its writer leaves. */
export function SessionEnd({ session }: { session: Session }) {
  const hasEnded = useSyncExternalStore(session.subscribe, session.hasEnded);
  const [isClosed, setClosed] = useState(false);
  return (
    <Modal
      visible={hasEnded && !isClosed}
      header="Your session has ended"
      closeAriaLabel="Close"
      onDismiss={() => setClosed(true)}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={() => setClosed(true)}>
              Stay here
            </Button>
            <Button variant="primary" onClick={() => void session.signIn()}>
              Sign in again
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      You come back to this page. Text that isn’t saved is lost then: stay here to copy it first.
    </Modal>
  );
}
