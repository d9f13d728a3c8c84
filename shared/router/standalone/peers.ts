import { ServiceError } from './service-error.ts';

const PEERS_MAX = 256;

/** The other replicas of a service, by their addresses, in the order in which they came. */
export class Peers {
  readonly #urls = new Set<string>();

  /** Idempotent. @throws ServiceError 503 at the bound */
  add(url: string): void {
    if (!this.#urls.has(url) && this.#urls.size >= PEERS_MAX)
      throw new ServiceError(503, `more than ${PEERS_MAX} peers`);
    this.#urls.add(url);
  }

  /** @throws ServiceError 404 */
  remove(url: string): void {
    if (!this.#urls.delete(url)) throw new ServiceError(404, `${url} is not a peer`);
  }

  list(): readonly string[] {
    return [...this.#urls];
  }
}
