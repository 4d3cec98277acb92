/** Changes of a document. Each waits until the system has done it, then loads again what is shown. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, ApiError, data } from "../api/client";
import type { Hold, KnowledgeDocument, ObjectState, Restored } from "../api/schema";
import { readDocument } from "./DocumentQueries";
import { failureOf, patiently, pause, settled } from "./UploadStates";

const SECONDS = 120;

export const HOLDS = ["holds"];

/** Loads documents and holds again. */
function useReload(): () => Promise<void> {
  const queries = useQueryClient();
  return async () => {
    await Promise.all([["document"], ["documents"], HOLDS].map((queryKey) => queries.invalidateQueries({ queryKey })));
  };
}

/** Deletes a document. Gives false if it is accepted, but not done after a while. */
export function useDelete(documentId: string) {
  const onSettled = useReload();
  return useMutation({
    mutationFn: async (): Promise<boolean> => {
      const path = { documentId };
      await patiently(() => data(api.DELETE("/documents/{documentId}", { params: { path } })));
      for (const until = Date.now() + 1000 * SECONDS; Date.now() < until; await pause(1000)) {
        if (await isGone(documentId)) return true;
      }
      return false;
    },
    onSettled,
  });
}

async function isGone(documentId: string): Promise<boolean> {
  try {
    const { document } = await patiently(() => readDocument(documentId));
    return document.state === "deleted";
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return true;
    throw error;
  }
}

export interface RestoredState extends Restored {
  state: ObjectState;
}

/** Restores a version as a new one. */
export function useRestore(documentId: string) {
  const onSettled = useReload();
  return useMutation({
    mutationFn: async (version: number): Promise<RestoredState> => {
      const params = { path: { documentId } };
      const restored = await data(api.POST("/documents/{documentId}/restore", { params, body: { version } }));
      const state = await settled(restored.objectKey, await failureOf(restored.objectKey), SECONDS);
      return { ...restored, state };
    },
    onSettled,
  });
}

export function useAddHold(document: KnowledgeDocument) {
  const onSettled = useReload();
  return useMutation({
    mutationFn: (reason: string): Promise<Hold> =>
      data(api.POST("/holds", { body: { reason, document: document.documentId, everything: false } })),
    onSettled,
  });
}

export function useLiftHold() {
  const onSettled = useReload();
  return useMutation({
    mutationFn: (holdId: string): Promise<Hold> =>
      data(api.DELETE("/holds/{holdId}", { params: { path: { holdId } } })),
    onSettled,
  });
}
