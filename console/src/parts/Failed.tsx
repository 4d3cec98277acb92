/** Errors of requests and of pages, in words. */
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import { useRouteError } from "react-router";
import { ApiError } from "../api/client";

const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export function Problem({ error, again }: { error: unknown; again?: () => void }) {
  const passing = error instanceof ApiError && (error.status === 0 || error.status === 503);
  return (
    <Alert
      type={passing ? "warning" : "error"}
      header={passing ? "The server is away" : "This failed"}
      action={again ? <Button onClick={again}>Try again</Button> : undefined}
    >
      {words(error)}
    </Alert>
  );
}

/** In place of a page that could not be shown. */
export function Failed() {
  return <Problem error={useRouteError()} again={() => window.location.reload()} />;
}
