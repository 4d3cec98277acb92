/** Sends a large file in parts. What is interrupted goes on with the parts that are missing: also after the page was opened
 * anew, once the same file is chosen again. */
import { api, ApiError, data } from "../api/client";
import type { PartAddresses, paths, UploadPart } from "../api/schema";
import { sha256 } from "./UploadDigest";
import { put } from "./UploadPut";
import { patiently } from "./UploadStates";

/** About ten minutes without the server. */
const ATTEMPTS = 64;
/** How often an address may end before its part is sent. */
const ADDRESSES = 3;

export interface LargeFile {
  file: File;
  source: string;
  metadata: Record<string, unknown>;
}

/** The generated type allows no metadata at all. */
type Body = paths["/uploads/parts"]["post"]["requestBody"]["content"]["application/json"];

/** Where the id of an unfinished upload of this file is remembered. */
const memoryOf = ({ file, source }: LargeFile): string => `opx-upload:${source}:${file.size}:${file.lastModified}`;

/** Sends the parts that are missing, then has the file stored. `begun` gets its object's key first, `sent` the share. */
export async function sendInParts(large: LargeFile, begun: (objectKey: string) => Promise<void>, sent: (share: number) => void): Promise<void> {
  const { file, source } = large;
  const memory = memoryOf(large);
  const first = await prepare(large, localStorage.getItem(memory) ?? "");
  const { uploadId, objectKey, partBytes } = first;
  localStorage.setItem(memory, uploadId);
  await begun(objectKey);
  const count = Math.ceil(file.size / partBytes);
  const stored = new Set(first.arrived);
  for (let number = 1; number <= count; number++) {
    const before = (number - 1) * partBytes;
    if (!stored.has(number)) {
      const part = file.slice(before, before + partBytes);
      await sendPart(large, uploadId, number, part, (share) => sent((before + share * part.size) / file.size));
    }
    sent(Math.min(1, (before + partBytes) / file.size));
  }
  await patiently(() => data(api.POST("/uploads/complete", { body: { source, size: file.size, uploadId } })), ATTEMPTS);
  localStorage.removeItem(memory);
}

async function sendPart(large: LargeFile, uploadId: string, number: number, part: Blob, sent: (share: number) => void): Promise<void> {
  const facts = { number, size: part.size, sha256: await sha256(part) };
  for (let attempt = 1; ; attempt++) {
    const found = await prepare(large, uploadId, facts);
    const address = found.puts[0];
    if (found.uploadId !== uploadId || !address) throw new ApiError(0, "ended", "the upload has ended meanwhile: try again");
    try {
      return await patiently(() => put(address, part, sent), ATTEMPTS);
    } catch (error) {
      // Addresses hold for some minutes, and end when the server starts again.
      if (!(error instanceof ApiError && error.status === 403) || attempt >= ADDRESSES) throw error;
    }
  }
}

function prepare({ file, source, metadata }: LargeFile, uploadId: string, ...parts: UploadPart[]): Promise<PartAddresses> {
  const body = { source, size: file.size, metadata, uploadId, parts };
  return patiently(() => data(api.POST("/uploads/parts", { body: body as unknown as Body })), ATTEMPTS);
}
