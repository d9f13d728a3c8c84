import { createHash } from 'node:crypto';
import { clientRequestId } from '../inference/deps.ts';
import type { RequestHead } from './request-head.ts';

/** Headers that are the same if a gateway sends a request again. */
const SAME = [':path', 'authorization', 'x-api-key'] as const;

/**
 * Returns whether a request says that it is not the first try: as Envoy counts tries for the next proxy, or the client
 * libraries of OpenAI and Anthropic. The same id and body alone say nothing: a load test repeats them, and so does a
 * client that asks for several samples under one id.
 */
export function isSentAgain(head: RequestHead): boolean {
  const tries = Number(head.get('x-envoy-attempt-count') ?? 1);
  const retries = Number(head.get('x-stainless-retry-count') ?? 0);
  return tries > 1 || retries > 0;
}

/**
 * Returns a name that a request and its next try share: it depends on the request's id, its credentials and its body.
 * Undefined if the request has no valid `x-request-id`.
 */
export function nameOfSent(head: RequestHead, body: readonly Uint8Array[]): string | undefined {
  const id = clientRequestId(head.get('x-request-id'));
  if (id === undefined) return undefined;
  const hash = createHash('sha256');
  for (const text of [id, ...SAME.map((name) => head.get(name) ?? '')]) hash.update(`${text.length}:${text}`);
  for (const part of body) hash.update(part);
  return hash.digest('base64');
}

/** The requests that have a place at a worker and no answer yet. Each has an open stream, whose number is limited. */
export class SentRequests {
  /** Functions that free places, by the name of their requests, with the earliest first. */
  readonly #byName = new Map<string, (() => void)[]>();

  /** Frees the place of the earliest request with that name. Returns whether there is one. */
  free(name: string): boolean {
    const [earliest] = this.#byName.get(name) ?? [];
    if (earliest === undefined) return false;
    this.delete(name, earliest);
    earliest();
    return true;
  }

  /** Adds a request that has a place, with the function that frees the place. */
  add(name: string, free: () => void): void {
    const others = this.#byName.get(name);
    if (others === undefined) this.#byName.set(name, [free]);
    else others.push(free);
  }

  /** Removes a request. Idempotent. */
  delete(name: string, free: () => void): void {
    const all = this.#byName.get(name) ?? [];
    const at = all.indexOf(free);
    if (at >= 0) all.splice(at, 1);
    if (all.length === 0) this.#byName.delete(name);
  }
}
