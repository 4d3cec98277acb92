import { describe, expect, it } from "vitest";
import type { DocumentChunk, Hold, KnowledgeDocument } from "../api/schema";
import { covers } from "./DocumentHolds";
import { joined } from "./DocumentQueries";
import { chosen } from "./UploadFiles";

const chunk = (content: string, start: number): DocumentChunk => ({
  chunkId: "",
  documentId: "",
  chunkIndex: 0,
  content,
  tokenCount: 1,
  section: [],
  start,
  end: start + Array.from(content).length,
  metadata: { documentTitle: "", category: "", tags: [] },
});

describe("text of chunks", () => {
  it("has the overlap of two chunks once", () => {
    expect(joined([chunk("one two", 0), chunk("two three", 4)])).toBe("one two three");
  });
  it("counts a character outside the basic plane as one", () => {
    expect(joined([chunk("a😀b", 0), chunk("😀bc", 1)])).toBe("a😀bc");
  });
  it("is empty without chunks", () => {
    expect(joined([])).toBe("");
  });
});

const document = { key: "documents/a.md", category: "runbooks/procedures", scope: { clientId: "acme", projectId: "shop" } };
const isCovered = (hold: Partial<Hold>): boolean => covers(hold as Hold, document as KnowledgeDocument);

describe("a hold", () => {
  it.each([
    [{}, true],
    [{ within: "client:acme" }, true],
    [{ within: "client:acm" }, false],
    [{ within: "global" }, false],
    [{ category: "runbooks" }, true],
    [{ category: "runbooks/proc" }, false],
    [{ source: "documents/a.md", within: "client:acme/project:shop" }, true],
    [{ source: "documents/a.md", within: "client:acme" }, false],
    [{ source: "documents/b.md", within: "client:acme/project:shop" }, false],
  ])("%j covers the document: %s", (hold, expected) => {
    expect(isCovered(hold)).toBe(expected);
  });
});

describe("chosen files", () => {
  const paths = (...names: string[]): [string, boolean][] =>
    chosen(names.map((name) => new File(["x"], name))).map((one) => [one.path, one.sidecar !== undefined]);

  it("go with their metadata files", () => {
    expect(paths("a.md", "a.md.metadata.json", "b.md")).toEqual([["a.md", true], ["b.md", false]]);
  });
  it("leave hidden ones out", () => {
    expect(paths(".env", "a.md")).toEqual([["a.md", false]]);
  });
});
