import type { RequestNames } from '../../access/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { RequestCanceller } from '../../pipeline/index.ts';
import { requestKeyOf, requestNameOf } from '../../protocol/generation/index.ts';
import type { ServiceLifecycle } from './lifecycle.ts';

interface Running {
  readonly id: string;
  readonly owner: string;
  readonly breakOff: (error: ServeError) => void;
  /** Made when somebody first looks for a request. */
  key: string | undefined;
}

/**
 * The requests of this process that have not ended, by the ids that the server gave them. Bounded by the responses under
 * way: an entry lives from the start of the work to its end. All come and go, few are cancelled: those are searched for.
 */
export class RunningRequests {
  readonly #running = new Set<Running>();

  /**
   * @param id the server's own; what a client chose (`x-request-id`) need not be its alone
   * @param owner who alone may cancel it
   * @param breakOff ends work and response, which tells the error in its dialect
   * @returns takes the request out again
   */
  add(id: string, owner: string, breakOff: (error: ServeError) => void): () => void {
    const running: Running = { id, owner, breakOff, key: undefined };
    this.#running.add(running);
    return () => {
      this.#running.delete(running);
    };
  }

  /** Whether something runs under a response or request id, whoever's it is. */
  has(id: string): boolean {
    return this.#find(id).length > 0;
  }

  /** Cancels what an owner runs under a response or request id; false when nothing does. */
  cancel(id: string, owner: string): boolean {
    const found = this.#find(id).filter((running) => running.owner === owner);
    for (const { breakOff } of found) breakOff(new ServeError('client_closed_request', 'Request cancelled'));
    return found.length > 0;
  }

  #find(id: string): readonly Running[] {
    const key = requestKeyOf(id);
    if (key === undefined) return [];
    return [...this.#running].filter((running) => {
      running.key ??= requestKeyOf(running.id);
      return running.key === key;
    });
  }

  /** Ends all of them with `error`; returns how many. */
  breakOff(error: ServeError): number {
    const all = [...this.#running];
    for (const { breakOff } of all) breakOff(error);
    return all.length;
  }
}

/** What finds a request by its id. */
interface CancelDeps {
  readonly lifecycle: ServiceLifecycle;
  readonly canceller?: Pick<RequestCanceller, 'cancel'> | undefined;
  readonly names?: RequestNames | undefined;
}

/**
 * Ends what an owner runs under `id`: in this process by any id that the server gave it, elsewhere by that of a response that
 * is being streamed, which names its worker. False when nothing runs under it; an id that no edge has made for this owner
 * costs no call.
 * @throws ServeError `service_unavailable` when nobody had it and some could not be asked, `server_overloaded` when too many
 *   are cancelled at once
 */
export async function cancelRequest(
  { lifecycle, canceller, names }: CancelDeps,
  id: string,
  owner: string,
): Promise<boolean> {
  const key = requestKeyOf(id);
  if (key === undefined) return false;
  if (lifecycle.running.cancel(id, owner)) return true;
  const suffix = requestNameOf(id);
  const named = suffix === undefined ? undefined : names?.read(key, suffix, owner);
  if (named === undefined || canceller === undefined) return false;
  const { isCancelled, silent } = await canceller.cancel(named);
  if (isCancelled || silent === 0) return isCancelled;
  throw new ServeError('service_unavailable', `${silent} workers did not say whether they work on ${id}`, {
    retryAfterMs: 1000,
  });
}
