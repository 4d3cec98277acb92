/** Sign-in at an OIDC issuer: authorisation code with PKCE. Tokens stay in memory; only what proves that a reply is to this
 * page's own question is kept in the tab while the browser is away. */
import * as oauth from "oauth4webapi";
import type { SignInSettings } from "./settings";
import { TokenSession } from "./tokens";

/** The reason why nobody is signed in, in words for the page. */
export class SignInError extends Error {}

/** What the flow needs of the browser. */
export interface Tab {
  /** The address of the page. */
  address: URL;
  /** Of this tab alone, kept over a visit elsewhere. */
  kept: Pick<Storage, "getItem" | "setItem" | "removeItem">;
  isSecure: boolean;
  leave: (address: string) => void;
  /** Replaces the address without loading anything. */
  show: (address: string) => void;
}

interface Pending {
  state: string;
  nonce: string;
  verifier: string;
  back: string;
}

/** An issuer as this page knows it. */
export interface Issuer {
  server: oauth.AuthorizationServer;
  client: oauth.Client;
  options: { [oauth.allowInsecureRequests]: boolean };
}

const PENDING = "opx.sign-in";
const SIGNED_OUT = "opx.signed-out";
const LOOPBACK = ["localhost", "127.0.0.1"];
const CLOCK_TOLERANCE = 60;

/** The session of who signed in; undefined if the browser is on its way to the issuer. Throws `SignInError`. */
export async function openSession(settings: SignInSettings, skew: number, tab: Tab): Promise<TokenSession | undefined> {
  if (!tab.isSecure) {
    throw new SignInError(
      "This browser keeps its cryptography (WebCrypto) from pages without TLS, and signing in needs it: open the page by its https address.",
    );
  }
  const found = tab.address.searchParams;
  const isReply = found.has("state") && (found.has("code") || found.has("error"));
  if (!isReply && tab.kept.getItem(SIGNED_OUT)) {
    tab.kept.removeItem(SIGNED_OUT);
    throw new SignInError("You are signed out.");
  }
  const issuer = await discovered(settings, skew);
  if (isReply) return completed(settings, issuer, tab);
  await begin(settings, issuer, tab);
  return undefined;
}

async function discovered({ issuer, clientId }: SignInSettings, skew: number): Promise<Issuer> {
  const address = new URL(issuer);
  const options = { [oauth.allowInsecureRequests]: LOOPBACK.includes(address.hostname) };
  const client = { client_id: clientId, [oauth.clockSkew]: skew, [oauth.clockTolerance]: CLOCK_TOLERANCE };
  try {
    const reply = await oauth.discoveryRequest(address, options);
    return { server: await oauth.processDiscoveryResponse(address, reply), client, options };
  } catch {
    throw new SignInError(`The sign-in service ${address.host} can't be reached, or isn't the one that this page is for.`);
  }
}

/** Sends the browser to the issuer. */
export async function begin(settings: SignInSettings, { server }: Pick<Issuer, "server">, tab: Tab): Promise<void> {
  if (!server.authorization_endpoint) throw new SignInError("The sign-in service has no page to sign in at.");
  const pending: Pending = {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    verifier: oauth.generateRandomCodeVerifier(),
    back: tab.address.hash,
  };
  tab.kept.setItem(PENDING, JSON.stringify(pending));
  const address = new URL(server.authorization_endpoint);
  const parameters = {
    client_id: settings.clientId,
    response_type: "code",
    redirect_uri: homeOf(tab),
    scope: settings.scope,
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(pending.verifier),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value);
  tab.leave(address.href);
}

/** Exchanges the code of the issuer's reply, and shows the page from which the sign-in began. */
async function completed(settings: SignInSettings, issuer: Issuer, tab: Tab): Promise<TokenSession> {
  const { server, client, options } = issuer;
  const pending = JSON.parse(tab.kept.getItem(PENDING) ?? "{}") as Partial<Pending>;
  tab.kept.removeItem(PENDING);
  const { state, nonce, verifier, back = "" } = pending;
  const received = tab.address.searchParams;
  tab.show(homeOf(tab) + back); // a code in an address is for nobody else
  if (!state || !nonce || !verifier || received.get("state") !== state) {
    throw new SignInError("The reply of the sign-in service is not to a sign-in that this page began.");
  }
  try {
    const checked = oauth.validateAuthResponse(server, client, received, state);
    const reply = await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), checked, homeOf(tab), verifier, options);
    const checks = { expectedNonce: nonce, requireIdToken: true };
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, reply, checks);
    return new TokenSession(issuer, tokens, {
      signIn: () => begin(settings, issuer, tab),
      signOut: (idToken) => {
        tab.kept.setItem(SIGNED_OUT, "1");
        tab.leave(signOutAddress(settings, server, homeOf(tab), idToken));
      },
    });
  } catch (error) {
    throw new SignInError(`Signing in failed: ${wordsOf(error)}.`);
  }
}

/** The page without its query and fragment: the address that the issuer knows. */
const homeOf = (tab: Tab): string => new URL("./", tab.address).href;

function signOutAddress(settings: SignInSettings, server: oauth.AuthorizationServer, home: string, idToken: string): string {
  const { clientId, signOut } = settings;
  const address = signOut ?? server.end_session_endpoint;
  if (!address) return home;
  const parameters: Record<string, string> = signOut
    ? { client_id: clientId, logout_uri: home }
    : { client_id: clientId, id_token_hint: idToken, post_logout_redirect_uri: home };
  return `${address}?${new URLSearchParams(parameters)}`;
}

function wordsOf(error: unknown): string {
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
    return error.error_description ?? error.error;
  }
  if (error instanceof oauth.OperationProcessingError && error.code === oauth.JWT_TIMESTAMP_CHECK) {
    return "its reply is too old, or the clock of this computer is wrong";
  }
  return error instanceof Error ? error.message : String(error);
}

/** This browser's tab. */
export const thisTab = (): Tab => ({
  get address() {
    return new URL(window.location.href);
  },
  kept: window.sessionStorage,
  isSecure: window.isSecureContext && "subtle" in crypto,
  leave: (address) => window.location.assign(address),
  show: (address) => window.history.replaceState(null, "", address),
});
