/** Queries and requests of the page of sources. */
import { useIsMutating, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { AS_JOB, followed } from "../api/jobs";
import type { PullReport, SourceView } from "../api/schema";

const PULL = ["pull"] as const;
const POLL_MS = 2000;
/** How long a queued pull is watched for before it begins. */
const WATCH_MS = 60_000;

/** A message about something that was done. */
export interface Notice {
  type: "success" | "error" | "warning" | "info";
  text: string;
  details?: string[];
}

export type Notify = (notice: Notice) => void;

/** How often a list is read whose work is in progress. A stream of events about that work would replace this. */
const progressInterval = (isActive: boolean): number | false => (isActive ? POLL_MS : false);

/** All sources; read every two seconds while one is pulled. `watch` is called after a pull was queued elsewhere. */
export function useSources() {
  const pulls = useIsMutating({ mutationKey: PULL });
  const [until, setUntil] = useState(0);
  const query = useQuery({
    queryKey: ["sources"],
    queryFn: () => data(api.GET("/sources")),
    refetchInterval: ({ state }) => {
      const active = state.data?.sources.some((one) => one.state.pulling) || Date.now() < until;
      return progressInterval(Boolean(pulls || active));
    },
  });
  return { query, watch: () => setUntil(Date.now() + WATCH_MS) };
}

export const useCategories = () =>
  useQuery({
    queryKey: ["categories"],
    queryFn: () => data(api.GET("/categories")),
    select: ({ categories }) => categories.map((one) => one.path).sort(),
    staleTime: 300_000,
  });

export const useKinds = () =>
  useQuery({
    queryKey: ["source kinds"],
    queryFn: () => data(api.GET("/sources/kinds")),
    select: ({ kinds }) => kinds,
    staleTime: 300_000,
  });

export interface Pull {
  everything: boolean;
  acceptMissing: boolean;
}

interface Started {
  sourceId: string;
  report?: PullReport | null;
}

interface Outcomes {
  notify: Notify;
  watch: () => void;
}

/** Says what a pull did, and reads the sources again. */
function useReported({ notify, watch }: Outcomes) {
  const queries = useQueryClient();
  return ({ sourceId, report }: Started): void => {
    void queries.invalidateQueries({ queryKey: ["sources"] });
    if (!report) watch();
    notify(report ? reported(report) : { type: "info", text: `${sourceId}: the pull is queued; its state shows the progress.` });
  };
}

export function usePull(sourceId: string, outcomes: Outcomes) {
  const onSuccess = useReported(outcomes);
  const queries = useQueryClient();
  return useMutation({
    mutationKey: PULL,
    mutationFn: (body: Pull) => {
      const call = api.POST("/sources/{sourceId}/pull", { params: { path: { sourceId } }, body, headers: AS_JOB });
      return followed<Started>(call, () => void queries.invalidateQueries({ queryKey: ["sources"] }));
    },
    onSuccess,
    onError: (error) => outcomes.notify({ type: "error", text: `${sourceId}: ${error.message}` }),
  });
}

export interface Crawl {
  urls: string[];
  sitemaps: string[];
  category: string;
  depth?: number;
  maxPages?: number;
  include: string[];
  exclude: string[];
}

export function useCrawl(outcomes: Outcomes, done: () => void) {
  const report = useReported(outcomes);
  return useMutation({
    mutationKey: PULL,
    mutationFn: (body: Crawl) => data(api.POST("/crawl", { body })),
    onSuccess: (started) => {
      report(started);
      done();
    },
  });
}

export function reported(report: PullReport): Notice {
  const parts = [
    `${report.put?.length ?? 0} put`,
    `${report.unchanged ?? 0} unchanged`,
    `${report.withdrawn?.length ?? 0} withdrawn`,
    ...(report.refused ? [`${report.refused} refused`] : []),
    ...(report.keptOut ? [`${report.keptOut} kept out by the retention ${report.keptOutBy}`] : []),
  ];
  const details = [
    ...(report.error ? [report.error] : []),
    ...(report.flag ? [report.flag] : []),
    ...(report.refusals ?? []).map((one) => `${one.key}: ${one.reason}`),
    ...(report.more ? ["Not everything is pulled yet: the next pull continues it."] : []),
  ];
  const type = report.error ? "error" : report.flag || report.refused ? "warning" : "success";
  return { type, text: `${report.sourceId}: ${parts.join(", ")}`, details };
}

export function useCheck(sourceId: string, notify: Notify) {
  return useMutation({
    mutationFn: () => data(api.GET("/sources/{sourceId}/health", { params: { path: { sourceId } } })),
    onSuccess: ({ health }) =>
      notify(
        health?.ok
          ? { type: "success", text: `${sourceId} can be pulled now` }
          : { type: "error", text: `${sourceId} can't be pulled: ${health?.reason || "no reason is known"}` },
      ),
    onError: (error) => notify({ type: "error", text: `${sourceId}: ${error.message}` }),
  });
}

export function useRemove(sourceId: string, notify: Notify) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => data(api.DELETE("/sources/{sourceId}", { params: { path: { sourceId } } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["sources"] });
      notify({ type: "success", text: `${sourceId} is removed; its documents stay` });
    },
  });
}

/** A source as knowledge.yaml declares it. */
export interface Definition {
  kind: string;
  category?: string;
  schedule?: string;
  time_zone?: string;
  enabled: boolean;
  tags?: string[];
  max_missing_share: number;
  options: Record<string, unknown>;
}

/** The description of the API states no fields of a definition and of options, so that their generated type has none. */
const anyFields = (fields: object): Record<string, never> => fields as Record<string, never>;

export function useRegister(done: (source: SourceView) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ sourceId, definition }: { sourceId: string; definition: Definition }) =>
      data(api.PUT("/sources/{sourceId}", { params: { path: { sourceId } }, body: { definition: anyFields(definition) } })),
    onSuccess: (source) => {
      void queries.invalidateQueries({ queryKey: ["sources"] });
      done(source);
    },
  });
}

export interface Change {
  sourceId: string;
  enabled?: boolean;
  category?: string;
  schedule?: string;
  timeZone?: string;
  tags?: string[];
  maxMissingShare?: number;
  /** Options to change; null removes one. */
  options?: Record<string, unknown>;
}

export function useChange(done: (source: SourceView) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ sourceId, options, ...rest }: Change) => {
      const body = { ...rest, ...(options ? { options: anyFields(options) } : {}) };
      return data(api.PATCH("/sources/{sourceId}", { params: { path: { sourceId } }, body }));
    },
    onSuccess: (source) => {
      void queries.invalidateQueries({ queryKey: ["sources"] });
      done(source);
    },
  });
}

/** Reads the first documents of a source that isn't registered. */
export const useTrial = () =>
  useMutation({
    mutationFn: (definition: Definition) => data(api.POST("/sources/trials", { body: { definition: anyFields(definition), limit: 10 } })),
  });
