import { createHash } from 'node:crypto';
import { clientRequestId } from '../inference/deps.ts';
import type { RequestHead } from './request-head.ts';

/** Headers that are the same if a gateway sends a request again. */
const SAME = [':path', 'authorization', 'x-api-key'] as const;

/**
 * Returns a name that two requests share only if a gateway sends one of them again: it depends on the request's id, its
 * credentials and its body. Undefined if the request has no valid `x-request-id`.
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
  readonly #byName = new Map<string, () => void>();

  /** Frees the place of the request with that name. Returns whether there is one. */
  free(name: string): boolean {
    const free = this.#byName.get(name);
    this.#byName.delete(name);
    free?.();
    return free !== undefined;
  }

  /**
   * Adds a request that has a place, with the function that frees the place. Frees the place of an earlier one with
   * that name, which waited for its worker at the same time. Returns whether there is one.
   */
  add(name: string, free: () => void): boolean {
    const hasEarlier = this.free(name);
    this.#byName.set(name, free);
    return hasEarlier;
  }

  /** Removes a request, unless a later one has its name. */
  delete(name: string, free: () => void): void {
    if (this.#byName.get(name) === free) this.#byName.delete(name);
  }
}
