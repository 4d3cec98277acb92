import { describe, expect, it } from "vitest";
import type { GapView } from "../api/schema";
import { skeleton, slug, suggestedSource } from "./GapDraft";
import { editAddress } from "./TextQueries";

const gap = {
  question: "Why do pods restart?",
  examples: ["Why do pods restart?", "pods restart <b>often</b>"],
  missing: [],
  services: ["shop"],
  owner: "team: a",
} as unknown as GapView;

describe("the draft for a gap", () => {
  it("has its questions, and its owner and services as front matter", () => {
    const text = skeleton(gap);
    expect(text).toContain('---\nowner: "team: a"\nservices: ["shop"]\n---\n');
    expect(text).toContain("# Why do pods restart?\n");
    expect(text.match(/Why do pods restart\?/g)).toHaveLength(2);
    expect(text).toContain("- pods restart \\<b\\>often\\</b\\>\n");
  });
  it("has no front matter without facts, and keeps a question on its line", () => {
    const text = skeleton({ ...gap, owner: "", services: [], question: "a\n# b", examples: [] });
    expect(text.startsWith("# a \\# b\n")).toBe(true);
  });
  it("has a name that is a path", () => {
    expect(suggestedSource(gap)).toBe("runbooks/why-do-pods-restart.md");
    expect([slug("../Größe?"), slug("///"), slug(`${"a".repeat(59)} bc`)]).toEqual(["gro-e", "draft", "a".repeat(59)]);
  });
});

describe("the page that edits a file at its origin", () => {
  it.each([
    ["https://github.com/acme/ops/blob/main/a/b.md", "https://github.com/acme/ops/edit/main/a/b.md"],
    ["https://git.example/g/s/r/-/blob/main/b.md?x=1", "https://git.example/g/s/r/-/edit/main/b.md"],
    ["https://wiki.example/pages/blob", ""],
    ["javascript:alert(1)//github.com/a/b/blob/main/c", ""],
    ["runbooks/a.md", ""],
  ])("of %s is %s", (address, expected) => {
    expect(editAddress(address)).toBe(expected);
  });
});
