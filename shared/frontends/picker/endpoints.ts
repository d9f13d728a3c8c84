import { isIP } from 'node:net';
import type { Placement } from '../../pipeline/index.ts';

type Worker = Placement['decode']['worker'];

/** Namespace and name of Envoy's hint about which endpoints a request may go to. */
const SUBSET_NAMESPACE = 'envoy.lb.subset_hint';
const SUBSET_KEY = 'x-gateway-destination-endpoint-subset';

const NOWHERE: readonly string[] = [];

/**
 * The endpoints at which Envoy reaches workers: the address of each worker's machine, with the same ports. With one
 * port, all ranks of a worker are there. With several ports, each rank has its own, in the order of the ranks.
 */
export class Endpoints {
  readonly #ports: readonly number[];
  readonly #known = new WeakMap<Worker, readonly string[]>();

  /** @param ports numbers of the ports at which each worker's machine serves HTTP, at least one */
  constructor(ports: readonly number[]) {
    this.#ports = ports;
  }

  /**
   * Returns `ip:port` of each rank of the worker, or one for all. Empty if the worker publishes no IP address, or if it
   * has more ranks than there are ports.
   */
  all(worker: Worker): readonly string[] {
    const known = this.#known.get(worker);
    if (known !== undefined) return known;
    const endpoints = this.#endpointsOf(worker);
    this.#known.set(worker, endpoints);
    return endpoints;
  }

  /**
   * Returns the endpoint of a rank; undefined if `all` is empty.
   * @param dpRank undefined = any of the worker's ranks; the first one is taken
   */
  of(worker: Worker, dpRank: number | undefined): string | undefined {
    const all = this.all(worker);
    return all[(dpRank ?? worker.dataParallelStartRank) - worker.dataParallelStartRank] ?? all[0];
  }

  #endpointsOf(worker: Worker): readonly string[] {
    const ip = addressOf(worker);
    if (ip === undefined) return NOWHERE;
    const host = isIP(ip) === 6 ? `[${ip}]` : ip;
    const [first] = this.#ports;
    if (this.#ports.length === 1) return [`${host}:${first}`];
    if (worker.dataParallelSize > this.#ports.length) return NOWHERE;
    return this.#ports.slice(0, worker.dataParallelSize).map((port) => `${host}:${port}`);
  }
}

/** Returns the IP address of the worker's machine, from the address of its request plane or of its files. */
function addressOf({ transport, filesAt }: Worker): string | undefined {
  const address = transport.tcp ?? transport.dynamo_tcp ?? filesAt;
  const hostPort = address?.split('/', 1)[0];
  const host = hostPort && hostOf(hostPort);
  return host !== undefined && isIP(host) !== 0 ? shortest(host) : undefined;
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
  const allowed = new Set(entries.map((entry) => comparable(entry.trim())));
  return (endpoint) => allowed.has(endpoint) || allowed.has(hostOf(endpoint));
}

/**
 * Returns an entry of a subset as `ip:port` with the brackets of IPv6, or as an address without brackets: `fd00::2` and
 * `[fd00::2]` are the same.
 */
function comparable(entry: string): string {
  if (isIP(entry) !== 0) return shortest(entry);
  if (entry.startsWith('[') && entry.endsWith(']')) return shortest(entry.slice(1, -1));
  const host = hostOf(entry);
  return isIP(host) === 6 ? `[${shortest(host)}]${entry.slice(entry.lastIndexOf(':'))}` : entry;
}

/** Returns the shortest form of an IPv6 address, so that two texts of one address are the same. Others stay. */
function shortest(host: string): string {
  // A zone such as `%eth0` is no part of a URL.
  return isIP(host) === 6 && !host.includes('%') ? new URL(`http://[${host}]`).hostname.slice(1, -1) : host;
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
