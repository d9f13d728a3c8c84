import { requestKeyOf } from '../../protocol/generation/index.ts';

interface Running {
  readonly ids: readonly string[];
  readonly cancel: () => void;
  /** Made when somebody first looks for a request. */
  keys: readonly string[] | undefined;
}

/**
 * The requests of this process that have not ended, by the ids that their clients may know. Bounded by the responses under
 * way: an entry lives from the start of the work to its end. All come and go, few are cancelled: those are searched for.
 */
export class RunningRequests {
  readonly #running = new Set<Running>();

  /**
   * @param ids the server's request id and the client's `x-request-id`, which need not be its alone
   * @returns takes the request out again
   */
  add(ids: readonly string[], cancel: () => void): () => void {
    const running: Running = { ids, cancel, keys: undefined };
    this.#running.add(running);
    return () => {
      this.#running.delete(running);
    };
  }

  /** Cancels what runs under a response or request id; false when nothing does. */
  cancel(id: string): boolean {
    const key = requestKeyOf(id);
    const found = [...this.#running].filter((running) => {
      running.keys ??= running.ids.map(requestKeyOf);
      return running.keys.includes(key);
    });
    for (const { cancel } of found) cancel();
    return found.length > 0;
  }
}
