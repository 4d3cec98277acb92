import { describe, expect, it } from "vitest";
import type { SourceKind, SourceOption, SourceView } from "../api/schema";
import { changedOptions, optionsOf, valuesOf } from "./SourceValues";

const option = (name: string, type: SourceOption["type"], rest: Partial<SourceOption> = {}): SourceOption => ({
  name,
  type,
  about: "",
  required: false,
  isSecret: false,
  default: null,
  ...rest,
});

const KIND: SourceKind = {
  kind: "docs",
  about: "",
  category: "",
  isLocal: false,
  options: [
    option("urls", "texts", { required: true }),
    option("depth", "integer", { default: 3 }),
    option("rate", "number", { default: 1.5 }),
    option("raw_url", "text", { default: "https://raw.example.org" }),
    option("deep", "flag", { default: false }),
    option("patterns", "texts", { default: ["*.md", "*.rst"] }),
  ],
};

describe("options of a source", () => {
  it("are the defaults at first, and none is sent", () => {
    const values = valuesOf(KIND);
    expect(values).toEqual({ urls: "", depth: "3", rate: "1.5", raw_url: "https://raw.example.org", deep: false, patterns: "*.md\n*.rst" });
    expect(optionsOf(KIND, values)).toEqual({});
  });

  it("are sent by their types where they differ", () => {
    const values = { ...valuesOf(KIND), urls: " https://a.example \n\nhttps://b.example", depth: "5", rate: "0.5", deep: true };
    expect(optionsOf(KIND, values)).toEqual({ urls: ["https://a.example", "https://b.example"], depth: 5, rate: 0.5, deep: true });
  });

  it("are sent empty where a default is cleared, but for numbers", () => {
    expect(optionsOf(KIND, { ...valuesOf(KIND), raw_url: "", patterns: "", depth: "" })).toEqual({ raw_url: "", patterns: [] });
  });

  it("keep a number that is none, so that the server refuses it", () => {
    expect(optionsOf(KIND, { ...valuesOf(KIND), depth: "many" })).toEqual({ depth: "many" });
  });

  it("are changed one by one, and removed by null", () => {
    const source = { options: { urls: ["https://a.example"], depth: 5, deep: true } } as unknown as SourceView;
    const values = { ...valuesOf(KIND, source.options), depth: "3", rate: "2" };
    expect(changedOptions(KIND, source, values)).toEqual({ depth: null, rate: 2 });
  });
});
