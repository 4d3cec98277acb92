/** Long work: a server of this machine does it as a job and streams its steps; a deployed system does it within the request, or
 * orders it, and the caller polls the state that the API has. */
import { ApiError, dataOf, reached, refusal, type Reply } from "./client";

/** Header of a request that may be answered with a job. Servers that know no jobs ignore it. */
export const AS_JOB = { Prefer: "respond-async" } as const;

const POLL_MS = 1000;

export interface JobStep {
  step: string;
  count: number;
}

interface Job {
  jobId: string;
  state: "running" | "cancelling" | "cancelled" | "done" | "failed";
  step: string;
  count: number;
  status: number;
  result: unknown;
}

/** The reply of a request that was sent with `AS_JOB`. `onStep` gets the steps if the server reports them, `onJob` a function
 * that cancels it, which only jobs have. Throws `ApiError` as `data` does, and for a cancelled job. */
export async function followed<T>(
  call: Promise<Reply<T>>,
  onStep: (step: JobStep) => void,
  onJob: (cancel: () => Promise<void>) => void = () => undefined,
): Promise<T> {
  const reply = await reached(call);
  const data = dataOf(reply);
  if (reply.response.headers.get("preference-applied") !== AS_JOB.Prefer) return data;
  const { jobId } = data as unknown as Job;
  onJob(() => cancelled(jobId));
  const job = await ended(jobId, onStep);
  if (job.state !== "done") throw refusal(job.status, job.result);
  return job.result as T;
}

/** Has a job end at its next step. */
async function cancelled(jobId: string): Promise<void> {
  const response = await reached(fetch(`/jobs/${jobId}`, { method: "DELETE", credentials: "same-origin" }));
  if (!response.ok) throw refusal(response.status, await response.json());
}

function ended(jobId: string, onStep: (step: JobStep) => void): Promise<Job> {
  return new Promise((resolve, reject) => {
    const events = new EventSource(`/jobs/${jobId}/events`);
    events.addEventListener("step", (event) => onStep(JSON.parse(event.data as string) as JobStep));
    events.addEventListener("end", (event) => {
      events.close();
      resolve(JSON.parse((event as MessageEvent<string>).data) as Job);
    });
    events.onerror = () => {
      // The browser connects again by itself unless the server refused.
      if (events.readyState !== EventSource.CLOSED) return;
      polled(jobId, onStep).then(resolve, reject);
    };
  });
}

async function polled(jobId: string, onStep: (step: JobStep) => void): Promise<Job> {
  for (;;) {
    const response = await reached(fetch(`/jobs/${jobId}`, { credentials: "same-origin" }));
    const body: unknown = await response.json();
    if (!response.ok) throw response.status === 404 ? lost() : refusal(response.status, body);
    const job = body as Job;
    if (job.state !== "running" && job.state !== "cancelling") return job;
    onStep({ step: job.step, count: job.count });
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const lost = (): ApiError =>
  new ApiError(404, "not_found", "the server was restarted meanwhile; what was done is kept: start it again to go on");
