/** Pages and their addresses. Each is loaded when it is opened; addresses are behind `#`, so that any server of files serves
 * them. */
import type { ComponentType } from "react";
import { createHashRouter, type RouteObject } from "react-router";
import { Page } from "./parts/Code";
import { Failed } from "./parts/Failed";
import { Frame } from "./parts/Frame";

const page = (path: string, load: () => Promise<{ default: ComponentType }>): RouteObject => ({
  path,
  element: <Page key={path} name={path} load={load} />,
});

const PAGES = [
  page("", () => import("./pages/Ask")),
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
];

let position = 0;
/** Of the page that is shown, in the history of the tab. */

/** A link to `#/…`, and an address that a person types, make an entry of the history without a position. The router needs one to go
 * back to the page, if its reader stays there. */
window.addEventListener("popstate", () => {
  if (!window.history.state) window.history.replaceState({ idx: position + 1 }, "");
});

/** A page that fails leaves the navigation around it. */
export const router = createHashRouter([
  { path: "/", Component: Frame, ErrorBoundary: Failed, children: [{ ErrorBoundary: Failed, children: PAGES }] },
]);

router.subscribe(() => {
  position = Number(window.history.state?.idx);
});
