// @vitest-environment node
import { describe, expect, it } from "vitest";
import { Sha256 } from "./UploadDigest";

const bytes = (length: number): Uint8Array<ArrayBuffer> => Uint8Array.from({ length }, (_, index) => index * 31 + 7);

describe("SHA-256 without the browser's", () => {
  it.each([0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 3_000_007])("of %d bytes in two pieces", async (length) => {
    const all = bytes(length);
    const digest = new Sha256();
    digest.update(all.slice(0, Math.floor(length / 3)));
    digest.update(all.slice(Math.floor(length / 3)));
    expect(digest.end()).toEqual(new Uint8Array(await crypto.subtle.digest("SHA-256", all)));
  });
});
