/** Code that is loaded when it is needed: again and again while the server is away, and with the page if it was replaced. */
import { useQuery } from "@tanstack/react-query";
import type { ComponentType } from "react";
import { ApiError, reached, unreachable } from "../api/client";
import { Loaded } from "./Loaded";

const RELOADED = "opx.reloaded";
const A_MINUTE = 60_000;

/** Code of this name, once it is loaded. */
export const useCode = <T,>(name: string, load: () => Promise<T>) =>
  useQuery({
    queryKey: ["code", name],
    queryFn: () => loaded(load),
    retry: (_, error) => error instanceof ApiError,
    networkMode: "always",
    staleTime: Infinity,
    gcTime: Infinity,
  });

/** Throws `ApiError` while the server is away. If it answers without this code, it has another version: the page is loaded anew,
 * once. */
async function loaded<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await styled(load);
  } catch {
    const index = await reached(fetch(".", { cache: "no-store" }));
    if (!index.ok) throw unreachable("the server");
  }
  try {
    return await styled(load);
  } catch (error) {
    if (Date.now() - Number(sessionStorage.getItem(RELOADED)) < A_MINUTE) throw error;
    sessionStorage.setItem(RELOADED, String(Date.now()));
    window.location.reload();
    return new Promise(() => undefined);
  }
}

/** Addresses of styles that failed to load: an `import()` asks for each of its styles once. */
const missing = new Set<string>();

const note = ({ target }: Event): void => {
  if (!(target instanceof HTMLLinkElement) || target.rel !== "stylesheet") return;
  missing.add(target.href);
  target.remove();
};
window.addEventListener("error", note, true);

async function styled<T>(load: () => Promise<T>): Promise<T> {
  await Promise.all([...missing].map(style));
  return load();
}

async function style(href: string): Promise<void> {
  await new Promise((resolve, reject) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href, onload: resolve });
    link.onerror = () => reject(new Error(`there are no styles at ${href}`));
    document.head.append(link);
  });
  missing.delete(href);
}

export function Page({ name, load }: { name: string; load: () => Promise<{ default: ComponentType }> }) {
  return <Loaded query={useCode(name, load)}>{({ default: Shown }) => <Shown />}</Loaded>;
}
