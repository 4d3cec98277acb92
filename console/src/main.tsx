import { I18nProvider } from "@cloudscape-design/components/i18n";
import messages from "@cloudscape-design/components/i18n/messages/all.en";
import { applyMode, Mode } from "@cloudscape-design/global-styles";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { RouterProvider } from "react-router/dom";
import { ApiError, attach, session } from "./api/client";
import { readSettings } from "./api/settings";
import { NotSignedIn, SessionEnd } from "./parts/SignIn";
import "./style.css";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = (): void => applyMode(dark.matches ? Mode.Dark : Mode.Light);
dark.addEventListener("change", follow);
follow();

/** A server that is away for a moment is asked again; a refusal stays one. */
const isPassing = (error: Error): boolean => error instanceof ApiError && [0, 502, 503, 504].includes(error.status);

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (count, error) => isPassing(error) && count < 20,
      retryDelay: (count) => Math.min(1000 * 2 ** count, 10_000),
      refetchOnWindowFocus: false,
      staleTime: 10_000,
    },
  },
});

/** True if the page may be shown: signed in, or without a need for it. False while the browser leaves to sign in. */
async function signedIn(): Promise<boolean> {
  const { settings, skew } = await readSettings();
  if (!settings) return true;
  const { openSession, thisTab } = await import("./api/sign-in");
  const opened = await openSession(settings, skew, thisTab());
  if (opened) attach(opened);
  return opened !== undefined;
}

/** The pages. Their router reads the address, which a sign-in changes before. */
async function pages(): Promise<ReactNode> {
  const { router } = await import("./router");
  const opened = session();
  return (
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
      {opened ? <SessionEnd session={opened} /> : null}
    </QueryClientProvider>
  );
}

async function start(root: HTMLElement): Promise<void> {
  let shown: ReactNode;
  try {
    if (!(await signedIn())) return;
    shown = await pages();
  } catch (error) {
    shown = <NotSignedIn reason={error instanceof Error ? error.message : String(error)} />;
  }
  createRoot(root).render(
    <StrictMode>
      <I18nProvider locale="en" messages={[messages]}>
        {shown}
      </I18nProvider>
    </StrictMode>,
  );
}

const root = document.getElementById("root");
if (root) void start(root);
