/** Originals of documents as text: reads one, and writes its next version unless somebody else did meanwhile. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, ApiError, data } from "../api/client";
import type { KnowledgeDocument, ObjectState, OriginalText } from "../api/schema";
import { failureOf, settled } from "./UploadStates";

const SECONDS = 120;
const TEXT = /\.(md|markdown|txt|text)$/i;
const GITHUB = /^(https:\/\/[^/?#]+\/[^/?#]+\/[^/?#]+)\/blob\/([^?#]+)/;
const GITLAB = /^(https:\/\/[^/?#]+\/[^?#]+)\/-\/blob\/([^?#]+)/;

export const isText = (name: string): boolean => TEXT.test(name);

/** The name of a document as operations on files take it. */
export const sourceOf = (document: KnowledgeDocument): string => document.key.replace(/^documents\//, "");

/** The page of a Git server that edits a file, from the one that shows it; empty for other addresses. */
export function editAddress(address: string): string {
  const gitlab = GITLAB.exec(address);
  if (gitlab) return `${gitlab[1]}/-/edit/${gitlab[2]}`;
  const github = GITHUB.exec(address);
  return github ? `${github[1]}/edit/${github[2]}` : "";
}

export const readText = (source: string): Promise<OriginalText> =>
  data(api.GET("/texts", { params: { query: { source } } }));

/** Read anew whenever it is opened, and never while it is edited. */
export const useText = (source: string) =>
  useQuery({
    queryKey: ["text", source],
    queryFn: () => readText(source),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnReconnect: false,
  });

/** The scope that owns what this page writes. */
export const useOwnScope = (): string | undefined =>
  useQuery({ queryKey: ["status"], queryFn: () => data(api.GET("/status")) }).data?.scope;

export interface Draft {
  source: string;
  text: string;
  /** The text that this one was made from; empty for a new document. */
  original: OriginalText;
}

export const isConflict = (error: unknown): boolean => error instanceof ApiError && error.status === 409;

/** Writes a text, and waits until it is ingested. */
export function useWrite(done: (state: ObjectState) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ source, text, original }: Draft): Promise<ObjectState> => {
      const known = original.objectKey ? await failureOf(original.objectKey) : "";
      const { objectKey } = await data(api.PUT("/texts", { body: { source, text, expected: original.revision } }));
      return settled(objectKey, known, SECONDS);
    },
    onSuccess: async (state) => {
      await Promise.all(
        [["documents"], ["document"], ["reviews"], ["text"]].map((queryKey) => queries.invalidateQueries({ queryKey, refetchType: "none" })),
      );
      done(state);
    },
  });
}
