/** Requests about one document. All are below the key `["document", id]`, so that a change loads them again together. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { DocumentChunk, DocumentPart, DocumentVersions } from "../api/schema";

const WATCH_MS = 15_000;
const READ_TOKENS = 20_000;

export const documentKey = (documentId: string): string[] => ["document", documentId];

export const readDocument = (documentId: string, after = 0): Promise<DocumentVersions> =>
  data(api.GET("/documents/{documentId}", { params: { path: { documentId }, query: after ? { after } : {} } }));

/** A document and its newest versions, looked at every few seconds: it may be changed or deleted meanwhile. */
export function useDocument(documentId: string) {
  return useQuery({
    queryKey: [...documentKey(documentId), "facts"],
    queryFn: () => readDocument(documentId),
    refetchInterval: WATCH_MS,
  });
}

/** All versions, page by page. They are loaded again when `newest` is another one. */
export function useVersions(documentId: string, newest: string) {
  return useInfiniteQuery({
    queryKey: [...documentKey(documentId), "versions", newest],
    queryFn: ({ pageParam }) => readDocument(documentId, pageParam),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next || undefined,
  });
}

/** The text in chunks. Also of versions that are not current. */
export function useChunks(documentId: string) {
  return useInfiniteQuery({
    queryKey: [...documentKey(documentId), "chunks"],
    queryFn: ({ pageParam }) =>
      data(api.GET("/documents/{documentId}/chunks", { params: { path: { documentId }, query: { after: pageParam } } })),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next || undefined,
  });
}

/** A part of the current version, in as many pieces as it takes. */
export function usePart(documentId: string, part: string, enabled = true) {
  return useInfiniteQuery({
    queryKey: [...documentKey(documentId), "part", part],
    queryFn: ({ pageParam }) => {
      const query = { document: documentId, part, maxTokens: READ_TOKENS, after: pageParam };
      return data(api.GET("/reading", { params: { query } }));
    },
    initialPageParam: 0,
    getNextPageParam: (page) => continuation(page) || undefined,
    enabled,
  });
}

/** Where a part continues; 0 if it ends. Calls that lead elsewhere have no position. */
function continuation(page: DocumentPart): number {
  const positions = (page.next ?? []).map((call) => (call.arguments as { after?: unknown }).after);
  return positions.find((position): position is number => typeof position === "number") ?? 0;
}

/** The text of consecutive chunks: their overlap is left out by their offsets. */
export function joined(chunks: DocumentChunk[]): string {
  let written = chunks[0]?.start ?? 0;
  let text = "";
  for (const chunk of chunks) {
    if (chunk.end <= written) continue;
    text += sliced(chunk.content, Math.max(0, written - chunk.start));
    written = chunk.end;
  }
  return text;
}

/** The text behind some characters. Offsets count characters, a string of the browser's counts halves of some. */
const sliced = (text: string, from: number): string => (from ? Array.from(text).slice(from).join("") : text);
