import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import type { Costs } from "../api/schema";
import { MonthsCosts } from "./HealthCosts";

const BILLED: Costs = {
  isBilled: true,
  pricesOf: "2026-11",
  leftOut: ["free tiers"],
  budget: 50,
  months: [
    {
      month: "2026-11",
      days: 3,
      dollars: 60,
      services: [{ service: "Lambda", dollars: 1.5 }],
      clients: [{ clientId: "acme", dollars: 7.25, questions: null, documents: 1200, chunks: 4, newDocuments: 5, newTokens: 6 }],
      otherClients: 0.5,
      unused: 20,
    },
  ],
};

/** What React has put off is done while there is a window. */
afterEach(async () => {
  cleanup();
  await new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
});

const shown = (): string => document.body.textContent ?? "";

describe("costs of a deployment", () => {
  it("are an estimate beside the budget, by client and by service, with what it leaves out", () => {
    render(<MonthsCosts costs={BILLED} />);
    expect(shown()).toContain("An estimate, no bill");
    expect(shown()).toContain("free tiers");
    expect(shown()).toContain("120 % of $50.00");
    expect(screen.getByRole("row", { name: /acme/ }).textContent).toBe("acmeno audit log1,200456$7.25");
    expect(shown()).toContain("Other clients: $0.50");
    expect(screen.getByRole("row", { name: /Lambda/ }).textContent).toBe("Lambda$1.50");
    expect(shown()).toContain("$20.00");
  });
});

describe("costs of a system on this machine", () => {
  it("are none, and its use is shown", () => {
    render(<MonthsCosts costs={{ ...BILLED, isBilled: false, budget: 0 }} />);
    expect(shown()).toContain("AWS bills nothing");
    expect(shown()).not.toContain("An estimate");
    expect(screen.getByRole("row", { name: /acme/ }).textContent).toBe("acmeno audit log1,200456");
    expect(screen.queryByRole("row", { name: /Lambda/ })).toBeNull();
  });
});
