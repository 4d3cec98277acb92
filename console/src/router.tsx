/** Pages and their addresses. Each is loaded when it is opened; addresses are behind `#`, so that any server of files serves
 * them. */
import type { ComponentType } from "react";
import { createHashRouter, type RouteObject } from "react-router";
import { Failed } from "./parts/Failed";
import { Frame } from "./parts/Frame";

const page = (path: string, load: () => Promise<{ default: ComponentType }>): RouteObject => ({
  path,
  lazy: async () => ({ Component: (await load()).default }),
});

export const router = createHashRouter([
  {
    path: "/",
    Component: Frame,
    ErrorBoundary: Failed,
    HydrateFallback: () => null,
    children: [
      { index: true, lazy: async () => ({ Component: (await import("./pages/Ask")).default }) },
      page("answers/:receiptId", () => import("./pages/Answer")),
      page("documents", () => import("./pages/Documents")),
      page("documents/:documentId", () => import("./pages/Document")),
      page("inbox", () => import("./pages/Inbox")),
      page("coverage", () => import("./pages/Coverage")),
      page("sources", () => import("./pages/Sources")),
      page("graph", () => import("./pages/Graph")),
      page("learning", () => import("./pages/Learning")),
      page("quality", () => import("./pages/Quality")),
      page("tenants", () => import("./pages/Tenants")),
      page("health", () => import("./pages/Health")),
      page("*", () => import("./pages/NotFound")),
    ],
  },
]);
