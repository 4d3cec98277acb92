/** Sends files a few at a time and follows them until they are ingested. It goes on while other pages are shown, and for
 * several seconds without the server. */
import { api, ApiError, data } from "../api/client";
import type { ObjectState, paths, SignedPut, UploadAddress } from "../api/schema";
import { sha256 } from "./UploadDigest";
import { SIDECAR, type ChosenFile } from "./UploadFiles";
import { sendInParts } from "./UploadParts";
import { put } from "./UploadPut";
import { failureOf, isPassing, isSettled, patiently, pause, statesOf } from "./UploadStates";

export const MAX_BYTES = 100 * 1024 ** 2;
/** Larger files are sent in parts, so that an interruption costs one part. */
const WHOLE_BYTES = 16 * 1024 ** 2;
const FILES_AT_ONCE = 4;
const KEYS_A_ROUND = 100;
const PATIENCE_MS = 900_000;
/** Longer than the system's own retries of a document that fails for a while. */
const REDRAW_MS = 100;

export type Fate = "queued" | "reading" | "sending" | "accepted" | "waiting" | "ingested" | "unchanged" | "left out" | "failed";
const OPEN: ReadonlySet<Fate> = new Set<Fate>(["queued", "reading", "sending", "accepted", "waiting"]);

export interface Upload extends ChosenFile {
  id: number;
  /** The document's stable name in the corpus. */
  source: string;
  metadata: Record<string, unknown>;
  fate: Fate;
  /** Share of its bytes that are sent. */
  sent: number;
  objectKey: string;
  documentId: string;
  title: string;
  reason: string;
  /** The failure that its object had before. */
  known: string;
}

/** The generated type allows no metadata at all. */
type PrepareBody = paths["/uploads"]["post"]["requestBody"]["content"]["application/json"];

export const isOpen = (upload: Upload): boolean => OPEN.has(upload.fate);

export class UploadQueue {
  private readonly all = new Map<number, Upload>();
  private readonly listeners = new Set<() => void>();
  private shown: readonly Upload[] = [];
  private redraw: ReturnType<typeof setTimeout> | undefined;
  private last = 0;
  private sending = 0;
  private polling = false;
  /** When a file was last sent or settled. */
  private news = 0;
  private reading: Promise<unknown> = Promise.resolve();

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = (): readonly Upload[] => this.shown;

  add(files: ChosenFile[], folder: string, metadata: Record<string, unknown>): void {
    const under = folder.replace(/^\/+|\/+$/g, "");
    for (const file of files) {
      const id = ++this.last;
      const source = under ? `${under}/${file.path}` : file.path;
      const start = { fate: "queued" as const, sent: 0, objectKey: "", documentId: "", title: "", reason: "", known: "" };
      this.all.set(id, { ...file, ...start, id, source, metadata });
    }
    this.changed();
    this.go();
  }

  retry(ids: number[]): void {
    for (const id of ids) this.set(id, { fate: "queued", sent: 0, reason: "" });
    this.go();
  }

  clear(): void {
    for (const upload of this.all.values()) if (!isOpen(upload)) this.all.delete(upload.id);
    this.changed();
  }

  private go(): void {
    for (const upload of this.all.values()) {
      if (this.sending >= FILES_AT_ONCE) return;
      if (upload.fate !== "queued") continue;
      this.sending++;
      this.set(upload.id, { fate: "reading" });
      void this.send(upload)
        .catch((error: unknown) => this.set(upload.id, { fate: "failed", reason: words(error) }))
        .finally(() => {
          this.sending--;
          this.go();
        });
    }
  }

  private async send(upload: Upload): Promise<void> {
    const { file, sidecar } = upload;
    if (file.size > MAX_BYTES) throw new Error("larger than 100 MB");
    if (file.size > WHOLE_BYTES && !sidecar) return this.sendParts(upload);
    const facts = await this.facts(file);
    const beside = sidecar ? await this.facts(sidecar) : undefined;
    const body = { source: upload.source, ...facts, metadata: upload.metadata, ...(beside ? { sidecar: beside } : {}) };
    const prepare = (): Promise<UploadAddress> => patiently(() => data(api.POST("/uploads", { body: body as PrepareBody })));
    const address = await prepare();
    const { objectKey } = address;
    if (address.state === "unchanged" || !address.put) {
      this.set(upload.id, { fate: "unchanged", objectKey, documentId: address.documentId ?? "" });
      return;
    }
    const known = await failureOf(objectKey);
    this.set(upload.id, { fate: "sending", objectKey, known });
    try {
      await this.store(upload, address, address.put);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 403)) throw error;
      const fresh = await prepare(); // addresses hold for some minutes, and end when the server starts again
      if (fresh.put) await this.store(upload, fresh, fresh.put);
    }
    this.accepted(upload);
  }

  private async sendParts(upload: Upload): Promise<void> {
    const begun = async (objectKey: string): Promise<void> =>
      this.set(upload.id, { fate: "sending", objectKey, known: await failureOf(objectKey) });
    await sendInParts(upload, begun, (sent) => this.set(upload.id, { sent }));
    this.accepted(upload);
  }

  private accepted(upload: Upload): void {
    this.set(upload.id, { fate: "accepted", sent: 1 });
    this.news = Date.now();
    void this.poll();
  }

  private async store(upload: Upload, address: UploadAddress, signed: SignedPut): Promise<void> {
    const { sidecar } = upload;
    const { sidecarPut } = address;
    if (sidecar && sidecarPut) await patiently(() => put(sidecarPut, sidecar));
    await patiently(() => put(signed, upload.file, (sent) => this.set(upload.id, { sent })));
    if (address.removeSidecar) {
      const objectKeys = [address.objectKey + SIDECAR];
      await patiently(() => data(api.POST("/objects/delete", { body: { objectKeys } })));
    }
  }

  /** Size and checksum, of one file at a time: they may be large. */
  private facts(file: File): Promise<{ sha256: string; size: number }> {
    const found = this.reading.then(async () => ({ sha256: await sha256(file), size: file.size }));
    this.reading = found.catch(() => undefined);
    return found;
  }

  private async poll(): Promise<void> {
    if (this.polling) return;
    this.polling = true;
    this.news = Date.now();
    for (let wait = 500, at = 0; ; ) {
      const waiting = [...this.all.values()].filter(({ fate }) => fate === "accepted" || fate === "waiting");
      if (!waiting.length || Date.now() - this.news > PATIENCE_MS) break;
      at = at < waiting.length ? at : 0;
      const some = waiting.slice(at, at + KEYS_A_ROUND);
      const count = await this.follow(some);
      at += some.length - count;
      if (count) this.news = Date.now();
      wait = count ? 500 : Math.min(1.5 * wait, 5000);
      await pause(wait);
    }
    this.polling = false;
  }

  /** Looks at the states of these; returns how many of them are settled. */
  private async follow(uploads: Upload[]): Promise<number> {
    let count = 0;
    try {
      const states = await statesOf([...new Set(uploads.map(({ objectKey }) => objectKey))]);
      const byKey = new Map(states.map((state) => [state.objectKey, state]));
      for (const upload of uploads) {
        const state = byKey.get(upload.objectKey);
        const done = state !== undefined && isSettled(state, upload.known);
        this.set(upload.id, done ? fateOf(state) : { fate: "waiting", reason: "" });
        if (done) count++;
      }
    } catch (error) {
      const fate = isPassing(error) ? "waiting" : "failed";
      for (const upload of uploads) this.set(upload.id, { fate, reason: words(error) });
    }
    return count;
  }

  private set(id: number, change: Partial<Upload>): void {
    const upload = this.all.get(id);
    if (!upload) return;
    this.all.set(id, { ...upload, ...change });
    this.changed();
  }

  private changed(): void {
    this.redraw ??= setTimeout(() => {
      this.redraw = undefined;
      this.shown = [...this.all.values()];
      for (const listener of this.listeners) listener();
    }, REDRAW_MS);
  }
}

function fateOf(state: ObjectState): Partial<Upload> {
  const { documentId = "", title = "", reason = "", keptOut = "" } = state;
  if (state.state === "failed") return { fate: "failed", reason };
  if (keptOut || state.state === "deleted") return { fate: "left out", documentId, title, reason: keptOut || reason || "it was removed meanwhile" };
  return { fate: "ingested", documentId, title, reason: "" };
}

function words(error: unknown): string {
  if (error instanceof DOMException) return "it can't be read: it was moved, changed or removed";
  return error instanceof Error ? error.message : String(error);
}

/** The uploads of this page, as long as it is open. */
export const uploads = new UploadQueue();
