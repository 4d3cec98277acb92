// @vitest-environment node
import { beforeEach, describe, expect, it, vi } from "vitest";
import { api, attach, data, KB } from "./client";
import { openSession, type Tab } from "./sign-in";
import type { TokenSession } from "./tokens";

const ISSUER = "https://issuer.example";
const PAGE = "https://console.example/console/";
const SETTINGS = { issuer: ISSUER, clientId: "page", scope: "openid" };

const base64url = (text: string): string => btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const encoded = (value: unknown): string => base64url(JSON.stringify(value));
const json = (body: unknown, status = 200): Response =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });

/** An issuer as a browser sees it: it checks the verifier of a code against its challenge, and each refresh token once. */
class Issuer {
  life = 900;
  refresh: string | undefined = "refresh-0";
  isAway = false;
  clock = 0;
  issued = 0;
  challenge = "";
  nonce = "";

  fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    if (this.isAway) throw new TypeError("Failed to fetch");
    if (pathname === "/.well-known/openid-configuration") {
      return json({
        issuer: ISSUER,
        authorization_endpoint: `${ISSUER}/authorize`,
        token_endpoint: `${ISSUER}/token`,
        end_session_endpoint: `${ISSUER}/leave`,
      });
    }
    const asked = new URLSearchParams(String(init?.body));
    if (asked.get("grant_type") === "refresh_token" && asked.get("refresh_token") === this.refresh) return this.tokens();
    return asked.get("code") === "code-1" && (await challengeOf(asked.get("code_verifier"))) === this.challenge
      ? this.tokens(this.nonce)
      : json({ error: "invalid_grant" }, 400);
  };

  private tokens(nonce?: string): Response {
    const now = Math.floor(Date.now() / 1000) + this.clock;
    const claims = { iss: ISSUER, aud: "page", sub: "ada", iat: now, exp: now + this.life, nonce, email: "ada@example.org", number: ++this.issued };
    if (this.refresh) this.refresh = `refresh-${this.issued}`;
    return json({
      access_token: "access",
      token_type: "Bearer",
      expires_in: this.life,
      id_token: `${encoded({ alg: "RS256" })}.${encoded(claims)}.c2ln`,
      ...(this.refresh ? { refresh_token: this.refresh } : {}),
    });
  }
}

async function challengeOf(verifier: string | null): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier ?? ""));
  return base64url(String.fromCharCode(...new Uint8Array(digest)));
}

class Browser implements Tab {
  address = new URL(`${PAGE}#/inbox`);
  isSecure = true;
  left = "";
  private readonly items = new Map<string, string>();
  kept = {
    getItem: (key: string) => this.items.get(key) ?? null,
    setItem: (key: string, value: string) => void this.items.set(key, value),
    removeItem: (key: string) => void this.items.delete(key),
  };
  leave = (address: string): void => void (this.left = address);
  show = (address: string): void => void (this.address = new URL(address));
}

let issuer: Issuer;
let browser: Browser;
let now: number;

beforeEach(() => {
  issuer = new Issuer();
  browser = new Browser();
  now = 1000;
  vi.stubGlobal("fetch", issuer.fetch);
  vi.spyOn(performance, "now").mockImplementation(() => now * 1000);
});

/** Follows the browser to the issuer, which sends it back with this reply. */
async function leave(): Promise<URLSearchParams> {
  expect(await openSession(SETTINGS, 0, browser)).toBeUndefined();
  const asked = new URL(browser.left).searchParams;
  issuer.challenge = asked.get("code_challenge") ?? "";
  issuer.nonce = asked.get("nonce") ?? "";
  return asked;
}

async function signIn(skew = 0): Promise<TokenSession> {
  const asked = await leave();
  browser.address = new URL(`${PAGE}?code=code-1&state=${asked.get("state")}`);
  const session = await openSession(SETTINGS, skew, browser);
  if (!session) throw new Error("not signed in");
  return session;
}

const numberOf = (token: string): number =>
  (JSON.parse(atob((token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/"))) as { number: number }).number;

describe("signing in", () => {
  it("asks for a code with a challenge, a state and a nonce, for this page without its fragment", async () => {
    const asked = await leave();
    expect(browser.left.startsWith(`${ISSUER}/authorize?`)).toBe(true);
    expect(Object.fromEntries(asked)).toMatchObject({
      client_id: "page",
      response_type: "code",
      redirect_uri: PAGE,
      scope: "openid",
      code_challenge_method: "S256",
    });
    for (const name of ["state", "nonce", "code_challenge"]) expect(asked.get(name)).toMatch(/^[\w-]{43}$/);
  });

  it("proves the challenge, comes back to the page from which it began, and leaves no code in its address", async () => {
    const session = await signIn();
    expect(numberOf(await session.token())).toBe(1);
    expect(session.name).toBe("ada@example.org");
    expect(browser.address.href).toBe(`${PAGE}#/inbox`);
  });

  it("keeps no token in the tab's storage", async () => {
    const set = vi.spyOn(browser.kept, "setItem");
    await (await signIn()).token();
    expect(set).toHaveBeenCalledOnce();
    expect(JSON.stringify(set.mock.calls)).not.toMatch(/eyJ|refresh-/);
    expect(browser.kept.getItem("opx.sign-in")).toBeNull();
  });

  it.each([
    ["another state", "code=code-1&state=forged"],
    ["a code of a sign-in that nobody began", "code=code-1&state="],
  ])("refuses %s", async (_name, query) => {
    await leave();
    browser.address = new URL(`${PAGE}?${query}`);
    await expect(openSession(SETTINGS, 0, browser)).rejects.toThrow("not to a sign-in that this page began");
    expect(issuer.issued).toBe(0);
  });

  it("uses a state once", async () => {
    const asked = await leave();
    const reply = new URL(`${PAGE}?code=code-1&state=${asked.get("state")}`);
    browser.address = reply;
    await openSession(SETTINGS, 0, browser);
    browser.address = reply;
    await expect(openSession(SETTINGS, 0, browser)).rejects.toThrow("not to a sign-in that this page began");
  });

  it.each([
    ["another nonce", () => (issuer.nonce = "forged"), "Signing in failed"],
    ["another challenge", () => (issuer.challenge = "forged"), "invalid_grant"],
    ["a token that is long expired", () => (issuer.clock = -5000), "the clock of this computer is wrong"],
  ])("refuses tokens for %s", async (_name, change, words) => {
    const asked = await leave();
    change();
    browser.address = new URL(`${PAGE}?code=code-1&state=${asked.get("state")}`);
    await expect(openSession(SETTINGS, 0, browser)).rejects.toThrow(words);
  });

  it("works with a clock that is wrong, by the server's", async () => {
    issuer.clock = -5000;
    expect(numberOf(await (await signIn(-5000)).token())).toBe(1);
  });

  it("says what the issuer says when it refuses", async () => {
    const asked = await leave();
    browser.address = new URL(`${PAGE}?error=access_denied&error_description=not+for+you&state=${asked.get("state")}`);
    await expect(openSession(SETTINGS, 0, browser)).rejects.toThrow("not for you");
  });

  it("says that it needs TLS where there is no WebCrypto", async () => {
    browser.isSecure = false;
    await expect(openSession(SETTINGS, 0, browser)).rejects.toThrow("open the page by its https address");
    expect(browser.left).toBe("");
  });

  it("says that the issuer is away", async () => {
    issuer.isAway = true;
    await expect(openSession(SETTINGS, 0, browser)).rejects.toThrow("issuer.example can't be reached");
  });
});

describe("a session", () => {
  it("renews a token once, before it expires, for all who wait", async () => {
    const session = await signIn();
    now += 800;
    expect(numberOf(await session.token())).toBe(1);
    now += 20;
    const found = await Promise.all([session.token(), session.token(), session.token()]);
    expect(found.map(numberOf)).toEqual([2, 2, 2]);
    now += 820;
    expect(numberOf(await session.token())).toBe(3);
  });

  it("stays while the issuer is away", async () => {
    const session = await signIn();
    now += 901;
    issuer.isAway = true;
    await expect(session.token()).rejects.toMatchObject({ status: 0 });
    issuer.isAway = false;
    expect(numberOf(await session.token())).toBe(2);
  });

  it.each([
    ["a refresh token that was revoked", () => (issuer.refresh = "another")],
    ["no refresh token", () => (issuer.refresh = undefined)],
  ])("ends with %s, and says so", async (_name, change) => {
    change();
    const session = await signIn();
    if (issuer.refresh) issuer.refresh = "revoked";
    const told = vi.fn();
    session.subscribe(told);
    now += 901;
    await expect(session.token()).rejects.toMatchObject({ status: 401 });
    expect(session.hasEnded()).toBe(true);
    expect(told).toHaveBeenCalledOnce();
  });

  it("is left at the issuer, and not opened again by itself", async () => {
    const session = await signIn();
    const token = await session.token();
    session.signOut();
    const left = new URL(browser.left);
    expect(left.pathname).toBe("/leave");
    expect(left.searchParams.get("id_token_hint")).toBe(token);
    await expect(session.token()).rejects.toMatchObject({ status: 401 });
    browser.address = new URL(PAGE);
    await expect(openSession(SETTINGS, 0, browser)).rejects.toThrow("You are signed out");
    expect(await openSession(SETTINGS, 0, browser)).toBeUndefined();
  });

  it("is left at Cognito by its own address", async () => {
    const asked = await leave();
    browser.address = new URL(`${PAGE}?code=code-1&state=${asked.get("state")}`);
    const session = await openSession({ ...SETTINGS, signOut: "https://pool.example/logout" }, 0, browser);
    session?.signOut();
    expect(browser.left).toBe(`https://pool.example/logout?client_id=page&logout_uri=${encodeURIComponent(PAGE)}`);
  });
});

describe("requests", () => {
  it("have the token, and a new one once the server calls it expired", async () => {
    const session = await signIn();
    const given: [string, string][] = [];
    vi.stubGlobal("fetch", async (input: Request | string | URL, init?: RequestInit) => {
      if (!(input instanceof Request)) return issuer.fetch(input, init);
      const token = input.headers.get("authorization")?.slice("Bearer ".length) ?? "";
      given.push([token, await input.text()]);
      return numberOf(token) === 1 ? json({ message: "Unauthorized" }, 401) : json({ results: [] });
    });
    attach(session);
    const body = { query: "disk" };
    await data(api.POST("/knowledge/{kbId}/query", { baseUrl: PAGE, params: { path: KB }, body }));
    expect(given.map(([token, text]) => [numberOf(token), text])).toEqual([
      [1, JSON.stringify(body)],
      [2, JSON.stringify(body)],
    ]);
  });
});
