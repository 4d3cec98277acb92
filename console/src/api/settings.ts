/** Settings of the page, from the file `settings.json` beside it, which a deployment writes. */

/** How to sign in. Without these, requests have the cookie of `opx console`. */
export interface SignInSettings {
  issuer: string;
  clientId: string;
  scope: string;
  /** The address that ends the session, of issuers whose own differs from what OIDC says: Cognito. */
  signOut?: string;
}

interface Read {
  settings?: SignInSettings;
  /** Seconds by which the server's clock is ahead of this one. */
  skew: number;
}

/** The settings; none on a laptop. Throws an `Error` if the server doesn't give them. */
export async function readSettings(): Promise<Read> {
  const reply = await fetch("settings.json", { cache: "no-store" });
  if (!reply.ok) throw new Error(`The settings of this page can't be read: the server replied with ${reply.status}.`);
  const { issuer, clientId, scope, signOut } = (await reply.json()) as Partial<SignInSettings>;
  const served = Date.parse(reply.headers.get("date") ?? "") + 1000 * Number(reply.headers.get("age") ?? 0);
  const skew = Number.isNaN(served) ? 0 : Math.round((served - Date.now()) / 1000);
  return issuer && clientId && scope ? { settings: { issuer, clientId, scope, signOut }, skew } : { skew };
}
