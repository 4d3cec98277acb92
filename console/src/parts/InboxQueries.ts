/** Queries of the inbox. Its tabs show their counts from the same data as their tables. */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { PAGING } from "./InboxMore";

export interface GapFilter {
  owner: string;
  service: string;
  settled: boolean;
}

export const NO_FILTER: GapFilter = { owner: "", service: "", settled: false };

export const useGaps = (filter: GapFilter) =>
  useQuery({
    queryKey: ["gaps", filter],
    queryFn: () => data(api.GET("/gaps", { params: { query: filter } })),
    placeholderData: keepPreviousData,
  });

export const useFailures = () =>
  useInfiniteQuery({
    queryKey: ["failures"],
    queryFn: ({ pageParam }) => data(api.GET("/failures", { params: { query: { limit: 100, after: pageParam } } })),
    ...PAGING,
  });

export const DUE_DAYS = 30;

export const useReviews = (days: number, owner: string) =>
  useQuery({
    queryKey: ["reviews", days, owner],
    queryFn: () => data(api.GET("/reviews", { params: { query: { days, owner } } })),
    placeholderData: keepPreviousData,
  });

export const useSecrets = () =>
  useInfiniteQuery({
    queryKey: ["secrets"],
    queryFn: ({ pageParam }) => data(api.GET("/secrets", { params: { query: { limit: 100, after: pageParam } } })),
    ...PAGING,
  });

/** Captured entries that wait for their verification. */
export const useEntries = () =>
  useInfiniteQuery({
    queryKey: ["entries", "waiting"],
    queryFn: ({ pageParam }) =>
      data(api.GET("/learning/entries", { params: { query: { state: "waiting", limit: 50, after: pageParam } } })),
    ...PAGING,
  });

export const DUPLICATES = ["duplicates"];

/** Read when its tab is opened: it compares all documents. */
export const useDuplicates = () =>
  useQuery({ queryKey: DUPLICATES, queryFn: () => data(api.GET("/duplicates")), staleTime: 60_000 });

export const CONTRADICTIONS = ["contradictions"];

/** Read when its tab is opened, as near-duplicates are. */
export const useContradictions = () =>
  useInfiniteQuery({
    queryKey: CONTRADICTIONS,
    queryFn: ({ pageParam }) => data(api.GET("/contradictions", { params: { query: { limit: 20, after: pageParam } } })),
    staleTime: 60_000,
    ...PAGING,
  });

/** Documents, to pick those with remarks: the API has no list of them alone. */
export const useDocuments = (enabled: boolean) =>
  useInfiniteQuery({
    queryKey: ["documents", "remarks"],
    queryFn: ({ pageParam }) => data(api.GET("/documents", { params: { query: { limit: 500, after: pageParam } } })),
    enabled,
    ...PAGING,
  });
