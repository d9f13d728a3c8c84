import { isIP } from 'node:net';
import type { Placement } from '../../pipeline/index.ts';

type Worker = Placement['decode']['worker'];

/** Namespace and name of Envoy's hint about which endpoints a request may go to. */
const SUBSET_NAMESPACE = 'envoy.lb.subset_hint';
const SUBSET_KEY = 'x-gateway-destination-endpoint-subset';

/** The endpoints at which Envoy reaches workers: the address of each worker's machine, with the same port. */
export class Endpoints {
  readonly #port: number;
  readonly #known = new WeakMap<Worker, string | undefined>();

  /** @param port number of the port at which each worker's machine serves HTTP */
  constructor(port: number) {
    this.#port = port;
  }

  /** Returns `ip:port`; undefined if the worker publishes no IP address. */
  of(worker: Worker): string | undefined {
    if (this.#known.has(worker)) return this.#known.get(worker);
    const ip = addressOf(worker);
    const endpoint = ip === undefined ? undefined : `${isIP(ip) === 6 ? `[${ip}]` : ip}:${this.#port}`;
    this.#known.set(worker, endpoint);
    return endpoint;
  }
}

/** Returns the IP address of the worker's machine, from the address of its request plane or of its files. */
function addressOf({ transport, filesAt }: Worker): string | undefined {
  const address = transport.tcp ?? transport.dynamo_tcp ?? filesAt;
  const hostPort = address?.split('/', 1)[0];
  const host = hostPort?.slice(0, hostPort.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1');
  return host !== undefined && isIP(host) !== 0 ? host : undefined;
}

/** Metadata of a request, by the namespace of the filter that wrote it. */
type FilterMetadata = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Returns whether a request may go to an endpoint: to any one, if Envoy gives no subset. */
export function subsetOf(metadata: FilterMetadata): (endpoint: string) => boolean {
  const hint = metadata[SUBSET_NAMESPACE]?.[SUBSET_KEY];
  if (hint === undefined) return () => true;
  // Filters of Envoy write one text, and control planes a list.
  const texts = Array.isArray(hint) ? hint : [hint];
  const entries = texts.flatMap((text) => (typeof text === 'string' ? text.split(',') : []));
  const allowed = new Set(entries.map((entry) => entry.trim()).filter((entry) => entry !== ''));
  return (endpoint) => allowed.has(endpoint) || allowed.has(hostOf(endpoint));
}

/** Returns the host of `ip:port` without brackets. */
function hostOf(endpoint: string): string {
  return endpoint.slice(0, endpoint.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1');
}

const LB_NAMESPACE = 'envoy.lb';
const SERVED_KEY = 'x-gateway-destination-endpoint-served';

/** Returns the endpoint that answered, if Envoy says. */
export function servedBy(metadata: FilterMetadata): string | undefined {
  const served = metadata[LB_NAMESPACE]?.[SERVED_KEY];
  return typeof served === 'string' ? served : undefined;
}
