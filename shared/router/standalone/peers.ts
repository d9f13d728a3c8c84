import type { Route } from './service-app.ts';
import { ServiceError } from './service-error.ts';

const PEERS_MAX = 256;

/** Told of peers that come and go. */
export interface PeerObserver {
  /** Throws when the address is of no use. */
  added(url: string): void;
  removed(url: string): void;
}

/** The other replicas of a service, by their addresses, in the order in which they came. */
export class Peers {
  readonly #urls = new Set<string>();
  readonly #observer: PeerObserver | undefined;

  constructor(observer?: PeerObserver) {
    this.#observer = observer;
  }

  /** Idempotent. @throws ServiceError 503 at the bound */
  add(url: string): void {
    if (this.#urls.has(url)) return;
    if (this.#urls.size >= PEERS_MAX) throw new ServiceError(503, `more than ${PEERS_MAX} peers`);
    this.#observer?.added(url);
    this.#urls.add(url);
  }

  /** @throws ServiceError 404 */
  remove(url: string): void {
    if (!this.#urls.delete(url)) throw new ServiceError(404, `${url} is not a peer`);
    this.#observer?.removed(url);
  }

  list(): readonly string[] {
    return [...this.#urls];
  }
}

/** The routes by which replicas are told of each other, under `prefix`; the body names one by `url` or `endpoint`. */
export function peerRoutes(prefix: string, peers: Peers): Route[] {
  const change = (path: string, status: number, apply: (url: string) => void): Route => ({
    method: 'POST',
    path: `${prefix}${path}`,
    serve: async (call) => {
      const body = await call.body();
      apply(body.has('endpoint') ? body.text('endpoint') : body.text('url'));
      return { status, json: { status: 'ok' } };
    },
  });
  return [
    change('/register_peer', 201, (url) => peers.add(url)),
    change('/deregister_peer', 200, (url) => peers.remove(url)),
    { method: 'GET', path: `${prefix}/peers`, serve: () => ({ status: 200, json: peers.list() }) },
  ];
}
