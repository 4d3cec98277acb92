/** Tokens of a signed-in session: in memory alone, renewed by their refresh token before they expire. */
import * as oauth from "oauth4webapi";
import { ended, unreachable, type Session } from "./client";
import type { Issuer } from "./sign-in";

/** Share of a token's life after which it is renewed. */
const LIFE = 0.9;

interface Ways {
  signIn: () => Promise<void>;
  signOut: (idToken: string) => void;
}

/** The ID token is what the API takes: it is for this page, and has groups and tenant with every issuer. */
export class TokenSession implements Session {
  readonly name: string;
  readonly signIn: () => Promise<void>;
  private idToken = "";
  private refreshToken = "";
  private until = 0;
  private renewing: Promise<string> | undefined;
  private isOver = false;
  private readonly listeners = new Set<() => void>();

  constructor(
    private readonly issuer: Issuer,
    tokens: oauth.TokenEndpointResponse,
    private readonly ways: Ways,
  ) {
    const claims = oauth.getValidatedIdTokenClaims(tokens);
    const name = claims?.email ?? claims?.preferred_username;
    this.name = typeof name === "string" ? name : "";
    this.signIn = ways.signIn;
    this.keep(tokens);
  }

  async token(afresh = false): Promise<string> {
    if (this.isOver) throw ended();
    if (!afresh && seconds() < this.until) return this.idToken;
    this.renewing ??= this.renew().finally(() => (this.renewing = undefined));
    return this.renewing;
  }

  signOut(): void {
    const { idToken } = this;
    this.end();
    this.ways.signOut(idToken);
  }

  hasEnded = (): boolean => this.isOver;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private async renew(): Promise<string> {
    if (!this.refreshToken) throw this.end();
    const { server, client, options } = this.issuer;
    let reply: Response;
    try {
      reply = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), this.refreshToken, options);
    } catch {
      throw unreachable("the sign-in service");
    }
    if (reply.status >= 500 || reply.status === 429) throw unreachable("the sign-in service");
    try {
      this.keep(await oauth.processRefreshTokenResponse(server, client, reply));
    } catch {
      throw this.end(); // revoked, expired, or of somebody else
    }
    return this.idToken;
  }

  /** Counts a token's life from now on by a clock that nobody sets: the computer's may be wrong. */
  private keep(tokens: oauth.TokenEndpointResponse): void {
    const claims = oauth.getValidatedIdTokenClaims(tokens);
    if (!claims || !tokens.id_token) throw new Error("the issuer sent no ID token");
    this.idToken = tokens.id_token;
    this.refreshToken = tokens.refresh_token ?? this.refreshToken;
    const life = Math.min(claims.exp - claims.iat, tokens.expires_in ?? Infinity);
    this.until = seconds() + LIFE * life;
  }

  private end(): Error {
    this.isOver = true;
    this.idToken = this.refreshToken = "";
    for (const listener of this.listeners) listener();
    return ended();
  }
}

const seconds = (): number => performance.now() / 1000;
