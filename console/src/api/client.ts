/** The REST API, with types generated from its OpenAPI description. */
import createClient from "openapi-fetch";
import type { paths } from "./schema";

/** The signed-in session of a page whose API wants tokens. On a laptop there is none: the browser sends a cookie by itself. */
export interface Session {
  /** The name of who signed in, "" if the issuer states none. */
  readonly name: string;
  /** A valid token, renewed if need be or if `afresh`. Throws `ApiError`: 401 if the session has ended, 0 if it can't be renewed now. */
  token(afresh?: boolean): Promise<string>;
  /** Leaves the page, and ends the session at the issuer, too. */
  signOut(): void;
  /** Begins a sign-in that comes back to this page. */
  signIn(): Promise<void>;
  /** True once a new sign-in is needed. */
  hasEnded(): boolean;
  subscribe(listener: () => void): () => void;
}

let current: Session | undefined;

/** The session of this page, if it has one. */
export const session = (): Session | undefined => current;

/** Sends every request with a token of this session from now on. */
export function attach(opened: Session): void {
  current = opened;
}

async function send(request: Request): Promise<Response> {
  if (!current) return fetch(request);
  const again = request.clone();
  const reply = await fetch(authorised(request, await current.token()));
  if (reply.status !== 401) return reply;
  return fetch(authorised(again, await current.token(true))); // it has expired by the server's clock
}

function authorised(request: Request, token: string): Request {
  request.headers.set("authorization", `Bearer ${token}`);
  return request;
}

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin", fetch: send });

/** The default knowledge base. */
export const KB = { kbId: "default" } as const;

/** A refusal of the API. `status` is 0 if the server couldn't be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** True for the refusal of a job that was stopped. */
export const isCancelled = (error: unknown): boolean => error instanceof ApiError && error.code === "cancelled";

export const unreachable = (what: string): ApiError =>
  new ApiError(0, "unreachable", `${what} can't be reached; the page tries again by itself`);

export interface Reply<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of a reply. Throws `ApiError` for a refusal, and for a server that can't be reached. */
export const data = async <T>(call: Promise<Reply<T>>): Promise<T> => dataOf(await reached(call));

export async function reached<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw error instanceof ApiError ? error : unreachable("the server");
  }
}

export function dataOf<T>(reply: Reply<T>): T {
  if (!reply.response.ok || reply.data === undefined) {
    throw refusal(reply.response.status, reply.error);
  }
  return reply.data;
}

const ENDED = "the session of this page has ended";

/** The error of a session that can't be renewed. */
export const ended = (how = "sign in again"): ApiError => new ApiError(401, "unauthenticated", `${ENDED}: ${how}`);

export function refusal(status: number, body: unknown): ApiError {
  if (status === 401) return ended(current ? undefined : "run `opx console` for a new address");
  const error = body instanceof Object && "error" in body ? body.error : undefined;
  const found = error instanceof Object ? (error as { code?: unknown; message?: unknown }) : {};
  return new ApiError(
    status,
    typeof found.code === "string" ? found.code : "error",
    typeof found.message === "string" ? found.message : `the server replied with ${status}`,
  );
}
