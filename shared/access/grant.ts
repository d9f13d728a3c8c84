import { createHash, timingSafeEqual } from 'node:crypto';
import { ServeError } from '../errors/index.ts';
import { isLoopback } from '../planes/index.ts';
import type { KeyLimits, KeyRecord } from './keys/key-record.ts';

type Headers = Readonly<Record<string, string>>;

/** Right that a route requires of its callers. */
export type Need =
  /** Requires a key for generating; the request counts against its budgets. */
  | 'generate'
  /** Requires a key for generating, for requests that cost nothing: reading one's own answers, cancelling. */
  | 'inference'
  /** Requires any key. */
  | 'key'
  | 'metrics'
  | 'admin';

/** Identity under which a request is admitted. */
export interface Grant {
  /** Owner of the answers and requests; empty if no keys are required. */
  readonly owner: string;
  /** Name for the log: never the secret. Undefined without a key. */
  readonly key: { readonly id: string; readonly name: string } | undefined;
  /** Whether the request may ask a model, under any of its names. */
  allowsModel(...names: readonly string[]): boolean;
  /** Headers of the response about budgets; undefined if there are none. */
  headers(): Headers | undefined;
  /** Counts tokens of prompt and answer that were used. */
  spent(tokens: number): void;
}

/** Failure of a request that exceeds the budget of its key, with the headers about the budget. */
export class OverBudget extends ServeError {
  readonly headers: Headers;

  constructor(code: 'rate_limit_exceeded' | 'insufficient_quota', message: string, waitMs: number, headers: Headers) {
    super(code, message, { retryAfterMs: Math.max(1, Math.ceil(waitMs)) });
    this.headers = headers;
  }
}

/** Use of a key in one process, since the process has counted it. */
export interface KeyUse {
  readonly requests: number;
  /** Tokens of prompts and answers. */
  readonly tokens: number;
  /** Tokens of the present day in UTC. */
  readonly tokensToday: number;
  /** Rest of each limit that the key has. */
  readonly left: KeyLimits;
}

/** Admits requests or refuses them. One gate serves all routes of a process, whatever their transport. */
export interface Gate {
  /**
   * Returns the identity under which a request is admitted; at once if nothing has to be looked up.
   * @param caller HTTP headers or gRPC metadata, by lower-case names
   * @param path of the route; a gRPC method's full name
   * @throws ServeError, or rejects with one: `invalid_api_key`, `insufficient_permissions`, `rate_limit_exceeded`,
   *   `insufficient_quota`, `service_unavailable` while keys cannot be looked up
   */
  admit(caller: Pick<Caller, 'header'>, need: Need, path: string): Grant | Promise<Grant>;
  /** Returns what this process counts of a key. @default nothing is counted */
  useOf?(key: KeyRecord): KeyUse;
  close(): void;
}

/** Grant of every caller if no keys are required. */
export const ANYBODY: Grant = Object.freeze({
  owner: '',
  key: undefined,
  allowsModel: () => true,
  headers: () => undefined,
  spent: () => {},
});

/** Grant of a caller without a key, at a route that is open although keys are required. */
export const STRANGER: Grant = Object.freeze({ ...ANYBODY, allowsModel: () => false });

/** Facts of a request about its sender. */
export interface Caller {
  /** Address at the other end of the socket; undefined if there is no socket. */
  readonly peer?: string | undefined;
  /** Version of HTTP, such as `1.1`, if it is known. */
  readonly httpVersion?: string | undefined;
  /** Returns the value of a header by its lower-case name. */
  header(name: string): string | undefined;
}

/** Headers by which a proxy says that it forwards a request of another client. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

/**
 * Returns why a caller does not count as a user of this machine, as a clause about the request; undefined = it counts.
 * The address is not enough. A proxy on this machine forwards requests of others. nginx sends no header that says so
 * unless it is configured to, but by default it forwards with HTTP/1.0, which other clients hardly use. A browser on
 * this machine sends what any web page asks it to; its `Origin` shows that, or its `Host` if the page has made its own
 * name resolve to this machine.
 *
 * @example
 * const stranger = refuseStranger(exchange);
 * if (stranger !== undefined) throw new ServeError('insufficient_permissions', `... ${stranger}`);
 */
export function refuseStranger(caller: Caller): string | undefined {
  const { peer } = caller;
  if (peer === undefined || !isLoopback(peer)) return 'it does not come from this machine';
  const forwarded = FORWARDED.find((name) => caller.header(name) !== undefined);
  if (forwarded !== undefined) return `it comes through a proxy, as its ${forwarded} header says`;
  if (caller.httpVersion === '1.0') return 'it uses HTTP/1.0, as proxies do that send no forwarding header';
  const host = caller.header('host');
  if (!namesThisMachine(host)) return 'its Host is not localhost, 127.0.0.1 or [::1]';
  const origin = caller.header('origin');
  const isOwnPage = origin === undefined || origin === `http://${host}` || origin === `https://${host}`;
  return isOwnPage ? undefined : 'its Origin is a web page of another site';
}

/** Returns the name or address in a `Host` header: lower case, without the port; an IPv6 address keeps its brackets. */
export function hostNameOf(header: string): string {
  return header.replace(/:\d*$/, '').toLowerCase();
}

/**
 * Whether a `Host` header means the machine that gets it, for any resolver: a web page that made its own name resolve
 * to this machine still sends that name. Any port is accepted, because tunnels have their own. A request without the
 * header does not come from a browser.
 */
export function namesThisMachine(header: string | undefined): boolean {
  return header === undefined || isLoopback(hostNameOf(header));
}

/** Rule for who may use a service of the fleet. */
export interface Admission {
  /** Secret that callers show; undefined = the fleet has no secret, and only a user of this machine may call. */
  readonly secret: string | undefined;
  /** The secret before it was rotated, which is accepted too. @default none */
  readonly previousSecret?: string | undefined;
  /** Whether everyone who reaches the service is trusted, by its operator's choice. */
  readonly isOpen: boolean;
}

/** Reason why a caller gets no answer. */
export interface Refusal {
  readonly status: 401 | 403;
  readonly message: string;
}

/**
 * Returns why a caller may not use a service of the fleet; undefined = it may. If there is a secret, every caller must
 * show it.
 */
export function refuseCaller({ secret, previousSecret, isOpen }: Admission, caller: Caller): Refusal | undefined {
  if (secret !== undefined) {
    if (holdsSecret(caller, secret) || (previousSecret !== undefined && holdsSecret(caller, previousSecret)))
      return undefined;
    return { status: 401, message: 'Authorization must be Bearer and the value of STATOR_PLANE_TOKEN' };
  }
  const stranger = isOpen ? undefined : refuseStranger(caller);
  if (stranger === undefined) return undefined;
  const message = `only requests from this machine are answered while no STATOR_PLANE_TOKEN is set; this one is refused: ${stranger}`;
  return { status: 403, message };
}

/**
 * Whether a caller shows `secret`, as `Authorization: Bearer` or `x-api-key`. The time that this takes reveals nothing
 * about the secret.
 */
export function holdsSecret(caller: Pick<Caller, 'header'>, secret: string): boolean {
  return shownSecrets(caller).some((shown) => timingSafeEqual(digest(shown), digest(secret)));
}

/** digests have the same length, whatever was shown */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

const BEARER = /^Bearer +(\S+) *$/i;

/** Returns what a caller shows to be admitted: `Authorization: Bearer`, otherwise `x-api-key`. */
export function shownSecrets(caller: Pick<Caller, 'header'>): readonly string[] {
  const authorization = caller.header('authorization');
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
  const other = caller.header('x-api-key');
  if (bearer === undefined) return other === undefined ? [] : [other];
  return other === undefined ? [bearer] : [bearer, other];
}
