/** Ingestion states of objects, and patience with a server that is away for a moment. */
import { api, ApiError, data } from "../api/client";
import type { ObjectState } from "../api/schema";

const ATTEMPTS = 8;
const INGESTED_SECONDS = 60;

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** No connection, too many requests, or a service that is down, as it says itself or a proxy before it. */
const PASSING: ReadonlySet<number> = new Set([0, 429, 502, 503, 504]);

/** True for a failure that passes by itself. */
export const isPassing = (error: unknown): boolean => error instanceof ApiError && PASSING.has(error.status);

/** Does the work again, after growing pauses, while its failure is one that passes. */
export async function patiently<T>(work: () => Promise<T>, attempts = ATTEMPTS): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isPassing(error) || attempt >= attempts) throw error;
      await pause(Math.min(500 * 2 ** (attempt - 1), 10_000));
    }
  }
}

export async function statesOf(objectKeys: string[]): Promise<ObjectState[]> {
  return (await data(api.POST("/objects/states", { body: { objectKeys } }))).states;
}

/** The mark of an object's latest failure, "" if it has none: a later failure has another one. */
export async function failureOf(objectKey: string): Promise<string> {
  return (await patiently(() => statesOf([objectKey])))[0]?.mark ?? "";
}

/** True once an object's ingestion has ended, other than by the failure that was known before. */
export const isSettled = (state: ObjectState, known: string): boolean =>
  state.state !== "waiting" && !(state.state === "failed" && known !== "" && state.mark === known);

/** Waits until an object that was put or removed is in the knowledge. Throws its failure. */
export async function ingested(objectKey: string): Promise<void> {
  const { state, reason } = await settled(objectKey, "", INGESTED_SECONDS);
  if (state === "failed") throw new ApiError(0, "failed", reason);
  if (state === "waiting") throw new ApiError(0, "waiting", "it is stored, and waits to be ingested: read the list again later");
}

/** Waits until an object is ingested, deleted or failed. Gives its last state after `seconds`. */
export async function settled(objectKey: string, known: string, seconds: number): Promise<ObjectState> {
  const until = Date.now() + 1000 * seconds;
  for (let wait = 500; ; wait = Math.min(1.5 * wait, 5000)) {
    const [state] = await patiently(() => statesOf([objectKey]));
    if (!state) throw new ApiError(0, "unknown", `the server says nothing about ${objectKey}`);
    if (isSettled(state, known) || Date.now() > until) return state;
    await pause(wait);
  }
}
