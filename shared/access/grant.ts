import { createHash, timingSafeEqual } from 'node:crypto';
import { ServeError } from '../errors/index.ts';
import { isLoopback } from '../planes/index.ts';

type Headers = Readonly<Record<string, string>>;

/** What a route asks of who calls it. */
export type Need =
  /** A key for generating; the request counts against its budgets. */
  | 'generate'
  /** A key for generating, for what costs nothing: own answers, cancelling. */
  | 'inference'
  /** Any key. */
  | 'key'
  | 'metrics'
  | 'admin';

/** As whom a request is let in. */
export interface Grant {
  /** Whose answers and requests these are; empty where no keys are asked for. */
  readonly owner: string;
  /** For the log: never the secret. Undefined without a key. */
  readonly key: { readonly id: string; readonly name: string } | undefined;
  /** Whether a model may be asked, under any of its names. */
  allowsModel(...names: readonly string[]): boolean;
  /** What the response says of budgets; undefined where there are none. */
  headers(): Headers | undefined;
  /** So many tokens of prompt and answer were used. */
  spent(tokens: number): void;
}

/** A request that its key's budget has no room for, with what the response says of the budget. */
export class OverBudget extends ServeError {
  readonly headers: Headers;

  constructor(code: 'rate_limit_exceeded' | 'insufficient_quota', message: string, waitMs: number, headers: Headers) {
    super(code, message, { retryAfterMs: Math.max(1, Math.ceil(waitMs)) });
    this.headers = headers;
  }
}

/** Lets requests in, or refuses them. One for all routes of a process, whatever their transport. */
export interface Gate {
  /**
   * As whom a request is let in; at once where nobody has to be asked.
   * @param caller HTTP headers or gRPC metadata, by lower-case names
   * @param path of the route; a gRPC method's full name
   * @throws ServeError, or rejects with one: `invalid_api_key`, `insufficient_permissions`, `rate_limit_exceeded`,
   *   `insufficient_quota`, `service_unavailable` while keys cannot be looked up
   */
  admit(caller: Pick<Caller, 'header'>, need: Need, path: string): Grant | Promise<Grant>;
  close(): void;
}

/** Everybody, where no keys are asked for. */
export const ANYBODY: Grant = Object.freeze({
  owner: '',
  key: undefined,
  allowsModel: () => true,
  headers: () => undefined,
  spent: () => {},
});

/** Somebody without a key, at a route that is open where keys are asked for. */
export const STRANGER: Grant = Object.freeze({ ...ANYBODY, allowsModel: () => false });

/** What a request tells of who sent it. */
export interface Caller {
  /** Address at the other end of the socket; undefined where there is no socket. */
  readonly peer?: string | undefined;
  /** Value of a header by its lower-case name. */
  header(name: string): string | undefined;
}

/** Headers by which a proxy says that it speaks for somebody else. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

/**
 * Why a caller does not count as somebody at this machine, as a clause about the request; undefined = it does. The address
 * alone says too little: a proxy here speaks for others, and a browser here sends what any web page asks it to, which its
 * `Origin` tells, or its `Host` where the page has made its own name resolve to this machine.
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
  const host = caller.header('host');
  if (!namesThisMachine(host)) return 'its Host is not localhost, 127.0.0.1 or [::1]';
  const origin = caller.header('origin');
  const isOwnPage = origin === undefined || origin === `http://${host}` || origin === `https://${host}`;
  return isOwnPage ? undefined : 'its Origin is a web page of another site';
}

/** The name or address in a `Host` header: lower case, without the port; an IPv6 address keeps its brackets. */
export function hostNameOf(header: string): string {
  return header.replace(/:\d*$/, '').toLowerCase();
}

/**
 * Whether a `Host` header means the machine that gets it, whoever looks the name up: a web page that made its own name resolve
 * to this machine still sends that name. Any port will do, since tunnels have their own; a request without the header comes
 * from no browser.
 */
export function namesThisMachine(header: string | undefined): boolean {
  return header === undefined || isLoopback(hostNameOf(header));
}

/** Who may use a service of the fleet. */
export interface Admission {
  /** What callers show; undefined = the fleet has no secret, and only somebody at this machine may call. */
  readonly secret: string | undefined;
  /** The secret before it was rotated, which counts as well. @default none */
  readonly previousSecret?: string | undefined;
  /** Whether whoever reaches the service is trusted, by its operator's choice. */
  readonly isOpen: boolean;
}

/** Why a caller is not answered. */
export interface Refusal {
  readonly status: 401 | 403;
  readonly message: string;
}

/** Why a caller may not use a service of the fleet; undefined = it may. A secret, where there is one, is asked of everybody. */
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

/** Whether a caller shows `secret`, as `Authorization: Bearer` or `x-api-key`. How long that takes tells nothing of it. */
export function holdsSecret(caller: Pick<Caller, 'header'>, secret: string): boolean {
  return shownSecrets(caller).some((shown) => timingSafeEqual(digest(shown), digest(secret)));
}

/** Digests are of one length, whatever was shown. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

const BEARER = /^Bearer +(\S+) *$/i;

/** What a caller shows to be let in: as `Authorization: Bearer`, then as `x-api-key`. */
export function shownSecrets(caller: Pick<Caller, 'header'>): readonly string[] {
  const authorization = caller.header('authorization');
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
  const other = caller.header('x-api-key');
  if (bearer === undefined) return other === undefined ? [] : [other];
  return other === undefined ? [bearer] : [bearer, other];
}
