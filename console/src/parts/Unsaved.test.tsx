import { cleanup, configure, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { createMemoryRouter, Outlet, RouterProvider } from "react-router";
import { afterEach, describe, expect, it, vi } from "vitest";
import { AskForm } from "./AskForm";
import { ReportGap } from "./AskReports";
import { CoverageChanges } from "./CoverageChanges";
import { DocumentHolds } from "./DocumentHolds";
import { GraphAliases } from "./GraphAliases";
import { GraphMerges } from "./GraphMerges";
import { InboxDismissal } from "./InboxDismissal";
import { InboxDraft } from "./InboxDraft";
import { InboxEntries } from "./InboxEntries";
import { GapDialog } from "./InboxGapActions";
import { LearningCheckpoint } from "./LearningCheckpoint";
import { LearningRetire } from "./LearningRetire";
import { LearningVerify } from "./LearningVerify";
import { SourceCrawl } from "./SourceCrawl";
import { SourceForm } from "./SourceForm";
import { TenantProjects } from "./TenantProjects";
import { TextEditor } from "./TextEditor";
import { LeaveGuard } from "./Unsaved";
import { UploadPanel } from "./UploadPanel";

/** Addresses of the API are relative, which only a browser's `Request` takes; the client keeps the class from its start. */
vi.hoisted(() => {
  const Absolute = globalThis.Request;
  globalThis.Request = class extends Absolute {
    constructor(input: RequestInfo | URL, init?: RequestInit) {
      super(typeof input === "string" ? new URL(input, "http://localhost/") : input, init);
    }
  };
});

configure({ asyncUtilTimeout: 20_000 });

const none = (): void => undefined;
const GAP = { gapId: "g1", question: "how?", owner: "", status: "open", services: [], examples: [], missing: [] };
const ENTRY = { id: "e1", entry_type: "human_feedback", human_feedback: "it leaks", state: "waiting", timestamp: "", incident: "" };
const DOCUMENT = { documentId: "d1", key: "documents/a.md", category: "runbooks", scope: { clientId: "" }, metadata: {} };

/** Replies of the server by path. */
const REPLIES: Record<string, unknown> = {
  "/gaps": { gaps: [GAP], more: false, dropped: 0 },
  "/learning/entries": { entries: [ENTRY], next: "" },
  "/sources/kinds": { kinds: [{ kind: "web", about: "pages", category: "runbooks", options: [{ name: "user", about: "", type: "text", required: true }] }] },
  "/categories": { categories: [], defaultCategory: "runbooks" },
  "/holds": { holds: [] },
  "/graph/aliases": { aliases: [] },
  "/graph/merges": { merges: [] },
  "/graph/find": { nodes: [] },
  "/projects/acme": { projects: [{ projectId: "shop", groupId: "" }] },
};

/** A form, the field that is typed into, and what opens it. */
interface Case {
  form: ReactElement;
  field: string;
  open?: string[];
}

const of = <T,>(value: unknown): T => value as T;

/** The forms by their file. */
const FORMS: Record<string, Case[]> = {
  AskForm: [{ form: <AskForm asked="" asOf="" onAsk={none} />, field: "Alert, log or question" }],
  AskReports: [{ form: <ReportGap question="how?" />, field: "What do the documents lack?", open: ["Report a gap"] }],
  CoverageChanges: [{ form: <CoverageChanges alert={of({ name: "A", owner: "" })} />, field: "Owner", open: ["Actions of A", "Assign"] }],
  DocumentHolds: [{ form: <DocumentHolds document={of(DOCUMENT)} />, field: "Reason", open: ["Add a hold"] }],
  GraphAliases: ["Other name", "Stands for"].map((field) => ({ form: <GraphAliases />, field })),
  GraphMerges: ["Merge this thing", "Into this thing"].map((field) => ({ form: <GraphMerges />, field })),
  InboxDismissal: [{ form: <InboxDismissal one={of({ contradictionId: "c1" })} onClose={none} />, field: "Reason" }],
  InboxDraft: ["Name in the corpus", "Your text"].map((field) => ({ form: <InboxDraft gapId="g1" onClose={none} />, field })),
  InboxEntries: [{ form: <InboxEntries />, field: "Incident", open: ["Verify: it leaks"] }],
  InboxGapActions: (["assign", "close", "ignore"] as const).map((action) => ({
    form: <GapDialog gap={of(GAP)} action={action} close={none} />,
    field: action === "assign" ? "Owner" : "Reason",
  })),
  LearningCheckpoint: [{ form: <LearningCheckpoint />, field: "Project of the checkpoint", open: ["Run a checkpoint"] }],
  LearningRetire: [{ form: <LearningRetire pattern={of({ patternId: "p1" })} onDismiss={none} />, field: "Reason" }],
  LearningVerify: [{ form: <LearningVerify entry={of(ENTRY)} onDismiss={none} />, field: "Incident" }],
  SourceCrawl: ["Addresses to start at", "Sitemaps"].map((field) => ({
    form: <SourceCrawl notify={none} watch={none} close={none} />,
    field,
  })),
  SourceForm: ["Id", "Tags of all its documents", "Time zone"].map((field) => ({ form: <SourceForm close={none} />, field })),
  TenantProjects: [{ form: <TenantProjects clientId="acme" />, field: "Group", open: ["Move shop"] }],
  TextEditor: [
    {
      form: <TextEditor source="a.md" original={{ source: "a.md", objectKey: "", text: "old", revision: "1" }} onWritten={none} onCancel={none} />,
      field: "Your text",
    },
  ],
  UploadPanel: [
    {
      form: <UploadPanel categories={of({ categories: [], defaultCategory: "runbooks" })} />,
      field: "Folder (optional)",
      open: ["Upload documents"],
    },
  ],
};

/** Files with fields that are no forms of their own, or whose text is a search, a filter or a safety catch: nothing to save. */
const NOTHING_TO_SAVE = [
  "DocumentFinder",
  "GraphChanges",
  "GraphFind",
  "GraphNeighbours",
  "GraphThingInput",
  "HealthAudit",
  "HealthUsage",
  "LearningEntries",
  "SourceOptions",
  "TenantRemoval",
];

const FIELDS = /components\/(input|textarea|date-input|autosuggest|prompt-input|token-group|attribute-editor|tag-editor)"/;
const sources = import.meta.glob<string>(["../**/*.tsx", "!../**/*.test.tsx"], { query: "?raw", import: "default", eager: true });
const named = (path: string): string => path.replace(/^.*\//, "").replace(".tsx", "");

afterEach(async () => {
  cleanup();
  vi.unstubAllGlobals();
  await new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
});

/** Shows a form on a page beside another one. */
function shown(form: ReactElement) {
  vi.stubGlobal("fetch", (request: Request) => {
    const body = REPLIES[new URL(request.url).pathname];
    return Promise.resolve(new Response(JSON.stringify(body ?? {}), { status: 200, headers: { "content-type": "application/json" } }));
  });
  const Frame = () => (
    <>
      <Outlet />
      <LeaveGuard />
    </>
  );
  const router = createMemoryRouter([
    { path: "/", Component: Frame, children: [{ index: true, element: form }, { path: "other", element: <p>the other page</p> }] },
  ]);
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false, gcTime: 0 } } });
  render(
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  return router;
}

async function opened({ form, field, open = [] }: Case) {
  const router = shown(form);
  for (const name of open) {
    const found = await waitFor(() => screen.queryByRole("button", { name }) ?? screen.getByRole("menuitem", { name }));
    fireEvent.click(found);
  }
  return { router, input: await screen.findByLabelText(field, { selector: "input, textarea" }) };
}

const CASES = Object.entries(FORMS).flatMap(([file, cases]) => cases.map((one) => [`${file}: ${one.field}`, one] as const));

describe("a form with typed text", () => {
  it.each(CASES)("asks before its page is left, %s", async (_, one) => {
    const { router, input } = await opened(one);
    expect(isAskedByBrowser()).toBe(false);
    fireEvent.change(input, { target: { value: "typed" } });
    await waitFor(() => expect(isAskedByBrowser()).toBe(true));
    await router.navigate("/other");
    const dialog = await screen.findByRole("dialog", { name: "Leave without saving?" });
    fireEvent.click(within(dialog).getByText("Stay"));
    expect((input as HTMLInputElement).value).toBe("typed");
    await router.navigate("/other");
    fireEvent.click(await screen.findByText("Leave"));
    await screen.findByText("the other page");
    expect(isAskedByBrowser()).toBe(false);
  }, 60_000);

  it("is in this list, or has nothing to save", () => {
    const found = Object.entries(sources).filter(([, text]) => FIELDS.test(text) || text.includes("useTyped("));
    expect(found.map(([path]) => named(path)).sort()).toEqual([...Object.keys(FORMS), ...NOTHING_TO_SAVE].sort());
  });
});

/** True if the browser would ask before it closes or reloads the page. */
function isAskedByBrowser(): boolean {
  return !window.dispatchEvent(new Event("beforeunload", { cancelable: true }));
}
