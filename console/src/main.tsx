import { I18nProvider } from "@cloudscape-design/components/i18n";
import messages from "@cloudscape-design/components/i18n/messages/all.en";
import { applyMode, Mode } from "@cloudscape-design/global-styles";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { RouterProvider } from "react-router/dom";
import { ApiError } from "./api/client";
import { router } from "./router";
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

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <I18nProvider locale="en" messages={[messages]}>
          <RouterProvider router={router} />
        </I18nProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
