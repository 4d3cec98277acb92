import { describe, expect, it } from "vitest";
import type { EvidenceItem } from "../api/schema";
import { relatedIn } from "./AskRelations";

const step = (from: string, to: string, edgeType = "depends_on") => ({ from, edgeType, to });

function item(path: EvidenceItem["path"], more: Partial<EvidenceItem> = {}): EvidenceItem {
  return { source: "Graph", content: "", confidence: 1, path, title: "", node: "", relation: "", at: "", answers: false, ...more };
}

describe("relations of an answer", () => {
  it("are none without a path", () => {
    expect(relatedIn({ items: [item([]), item(undefined)] }).relations).toEqual([]);
    expect(relatedIn({}).centre).toBe("");
  });

  it("are listed once, around the thing with the most of them", () => {
    const first = step("service:checkout", "service:payments");
    const second = step("change:chg-42", "service:payments", "affects");
    const found = relatedIn({ items: [item([first]), item([first, second]), item([second])] });
    expect(found.relations.map((one) => one.step)).toEqual([first, second]);
    expect(found.centre).toBe("service:payments");
  });

  it("have the document of the last step of a path alone, whichever item comes first", () => {
    const first = step("service:checkout", "service:payments");
    const second = step("change:chg-42", "service:payments", "affects");
    const outside = { documentId: "d1", title: "CHG-42", node: "change:chg-42", at: "2026-01-01", untrusted: true };
    const found = relatedIn({ items: [item([first, second], outside), item([first], { documentId: "d2" })] });
    expect(found.relations.map((one) => [one.documentId, one.isOutside])).toEqual([
      ["d2", false],
      ["d1", true],
    ]);
  });
});
