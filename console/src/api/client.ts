/** The REST API, with types generated from its OpenAPI description. */
import createClient from "openapi-fetch";
import type { paths } from "./schema";

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin" });

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
  } catch {
    throw new ApiError(0, "unreachable", "the server can't be reached; the page tries again by itself");
  }
}

export function dataOf<T>(reply: Reply<T>): T {
  if (!reply.response.ok || reply.data === undefined) {
    throw refusal(reply.response.status, reply.error);
  }
  return reply.data;
}

export function refusal(status: number, body: unknown): ApiError {
  if (status === 401) {
    return new ApiError(401, "unauthenticated", "the session of this page has ended: run `opx console` for a new address");
  }
  const error = body instanceof Object && "error" in body ? body.error : undefined;
  const found = error instanceof Object ? (error as { code?: unknown; message?: unknown }) : {};
  return new ApiError(
    status,
    typeof found.code === "string" ? found.code : "error",
    typeof found.message === "string" ? found.message : `the server replied with ${status}`,
  );
}
