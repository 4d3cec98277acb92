/** Queries of the coverage page. */
import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Node } from "../api/schema";
import { PAGING } from "./InboxMore";

export const useAlerts = (unbound: boolean) =>
  useInfiniteQuery({
    queryKey: ["alerts", unbound],
    queryFn: ({ pageParam }) => data(api.GET("/alerts", { params: { query: { unbound, limit: 100, after: pageParam } } })),
    placeholderData: keepPreviousData,
    ...PAGING,
  });

/** How often documents were in answers of the last 30 days, for callers who may read the audit log. */
export const useUse = () =>
  useQuery({
    queryKey: ["alerts", "use"],
    queryFn: () => data(api.GET("/alerts/use", { params: { query: { since: "30d" } } })),
    select: ({ documents }) => new Map(documents.map((one) => [one.documentId, one.answered])),
    retry: false,
  });

/** Reads alerts and coverage again. */
export function useCovered(): () => Promise<void> {
  const queries = useQueryClient();
  return async () => {
    await Promise.all([["alerts"], ["coverage"], ["documents"]].map((queryKey) => queries.invalidateQueries({ queryKey })));
  };
}

/** Things of a type that the server looks at: as it does by itself, and at most. */
export const LOOKED_AT = { few: 200, most: 1000 } as const;

export const useCoverage = (since: string, limit: number) =>
  useQuery({
    queryKey: ["coverage", since, limit],
    queryFn: () => data(api.GET("/graph/coverage", { params: { query: { since, limit } } })),
    placeholderData: keepPreviousData,
  });

type Kind = "alert" | "runbook" | "service";

/** Names of the first things of a type by reference; others are shown by their reference. */
export const useNames = (type: Kind) =>
  useQuery({
    queryKey: ["names", type],
    queryFn: () => data(api.GET("/graph/find", { params: { query: { q: `${type}:`, type, limit: 200 } } })),
    select: ({ nodes }) => new Map(nodes.map((node) => [node.key, nameOf(node)])),
    staleTime: 60_000,
  });

/** Of these, only a runbook is a document: the title of a page about a service or an alert isn't its name. */
function nameOf(node: Node): string {
  const { title, name } = node.properties;
  return String((node.type === "runbook" ? title : undefined) ?? name ?? bare(node.key));
}

/** A reference without its namespace. */
export const bare = (key: string): string => key.slice(key.indexOf(":") + 1);

/** The document that a runbook of the graph is: of the documents that name it, the one with its title. */
export async function documentOf(runbook: string): Promise<string | undefined> {
  const { node, passages } = await data(api.GET("/graph/nodes", { params: { query: { ref: runbook, limit: 1 } } }));
  const own = passages?.find((one) => one.title === node.properties?.title);
  return own?.documentId ?? node.evidence?.[0]?.documentId;
}
