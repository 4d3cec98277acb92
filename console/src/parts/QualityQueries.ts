/** Requests of the page of quality. All are below the key `["evaluations"]`, so that a change loads them again together. */
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { AS_JOB } from "../api/jobs";
import type { KeptRun, ModeFigures } from "../api/schema";
import { PAGING } from "./InboxMore";
import { useWork } from "./Progress";

export const KEY = ["evaluations"];

export const useRuns = () =>
  useInfiniteQuery({
    queryKey: [...KEY, "runs"],
    queryFn: ({ pageParam }) => data(api.GET("/evaluations", { params: { query: { after: pageParam } } })),
    ...PAGING,
  });

/** Runs an evaluation, or goes on with one. A request of a deployed system ends before a long run does, so that the next one
 * continues it. */
export function useEvaluate() {
  const queries = useQueryClient();
  const { step, stop, follow, setStep } = useWork();
  const evaluate = useMutation({
    mutationFn: async (runId: string): Promise<KeptRun> => {
      let id = runId;
      for (;;) {
        const call = api.POST("/evaluations", { body: { runId: id }, headers: AS_JOB });
        const run = await follow(call);
        if (run.state === "done") return run;
        id = run.runId;
        setStep(`${run.asked} of ${run.questions} questions asked`);
      }
    },
    onSettled: () => queries.invalidateQueries({ queryKey: KEY }),
  });
  return { evaluate, step, stop };
}

/** The figures of the mode that people use, or else of the first one. */
export const mainFigures = (run: KeptRun): ModeFigures | undefined =>
  run.figures?.find((one) => one.mode === "balanced") ?? run.figures?.[0];

export const share = (value: number | null | undefined): string => (value == null ? "none" : value.toFixed(3));

export const nameOf = (run: KeptRun): string => run.dataset || "own questions";
