import { ServeError } from '../errors/index.ts';
import type { Caller } from './caller.ts';

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
   * As whom a request is let in: at once where its key is known.
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
