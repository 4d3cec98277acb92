/** Sends bytes to signed addresses. */
import { ApiError } from "../api/client";

/** An address that takes these bytes, and the headers to send. */
export interface SignedAddress {
  url: string;
  headers: Record<string, string>;
}

/** Puts a file at a signed address. */
export function put(signed: SignedAddress, file: Blob, progress: (share: number) => void = () => undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch has no progress of what is sent
    request.open("PUT", signed.url);
    for (const [name, value] of Object.entries(signed.headers)) {
      if (name.toLowerCase() !== "content-length") request.setRequestHeader(name, value); // browsers set it themselves
    }
    request.upload.onprogress = (event) => progress(file.size ? event.loaded / file.size : 1);
    request.onerror = () => reject(new ApiError(0, "unreachable", "the file couldn't be sent: it changed, or the server is away"));
    request.onload = () => (request.status === 200 ? resolve() : reject(refusal(request)));
    request.send(file);
  });
}

function refusal(request: XMLHttpRequest): ApiError {
  const code = /<Code>([A-Za-z0-9]+)<\/Code>/.exec(request.responseText)?.[1] ?? "error";
  const message = CHANGED.has(code) ? "it changed while it was sent: try again" : `its storage replied with ${request.status} (${code})`;
  const passing = request.status >= 500 || code === "RequestTimeout";
  return new ApiError(passing ? 503 : request.status, code, message);
}

const CHANGED = new Set(["BadDigest", "XAmzContentSHA256Mismatch", "InvalidDigest", "IncompleteBody", "EntityTooLarge"]);
