import type { Clock } from '../../clock/index.ts';
import type { Discovery, EndpointRecord, Watch } from '../../discovery/index.ts';
import type { Transport } from '../../planes/request/index.ts';
import type { ComponentScope } from '../feed/index.ts';
import {
  CHOOSE_ENDPOINT,
  EXPLAIN_ENDPOINT,
  RELEASE_ENDPOINT,
  ROUTER_COMPONENT,
  WELL_KNOWN_INSTANCE,
} from './messages.ts';
import type { ResidentAddress } from './resident-line.ts';

/** An instance of a component, and where each of its endpoints is reached. */
export interface ServingInstance {
  readonly instanceId: string;
  readonly endpoints: Readonly<Partial<Record<string, Transport>>>;
}

/**
 * Follows the instances of a component, in the order of their ids: told once all are read, and at every change.
 * Rejects when discovery cannot be read, or with the signal's reason.
 */
export async function watchInstances(
  discovery: Discovery,
  { namespace, component }: ComponentScope,
  onChange: (instances: readonly ServingInstance[]) => void,
  signal?: AbortSignal,
): Promise<Watch> {
  const records = new Map<string, EndpointRecord>();
  let isReading = true;
  const tell = (): void => {
    if (!isReading) onChange(instancesOf(records.values()));
  };
  const listener: Parameters<Discovery['watch']>[1] = {
    event(event) {
      if (event.kind === 'removed') records.delete(event.key);
      else if (event.record.type === 'Endpoint') records.set(event.key, event.record);
      tell();
    },
  };
  const watch = await discovery.watch(
    { bucket: 'v1/instances', prefix: `${namespace}/${component}` },
    listener,
    signal,
  );
  isReading = false;
  tell();
  return watch;
}

function instancesOf(records: Iterable<EndpointRecord>): readonly ServingInstance[] {
  const byId = new Map<string, Record<string, Transport>>();
  for (const { instance_id: id, endpoint, transport } of records) {
    byId.set(id, { ...byId.get(id), [endpoint]: transport });
  }
  const instances = [...byId].map(([instanceId, endpoints]) => ({ instanceId, endpoints }));
  return instances.sort((a, b) => (a.instanceId < b.instanceId ? -1 : 1));
}

/** Follows the resident routers of a namespace: the instances whose endpoints are all there. Rejects as `watchInstances`. */
export function watchResidents(
  discovery: Discovery,
  namespace: string,
  onChange: (residents: readonly ResidentAddress[]) => void,
  signal?: AbortSignal,
): Promise<Watch> {
  const onInstances = (instances: readonly ServingInstance[]): void =>
    onChange(
      instances.flatMap(({ instanceId, endpoints }) => {
        const { [CHOOSE_ENDPOINT]: choose, [RELEASE_ENDPOINT]: release, [EXPLAIN_ENDPOINT]: explain } = endpoints;
        const isWhole = choose !== undefined && release !== undefined && explain !== undefined;
        return isWhole ? [{ instanceId, choose, release, explain }] : [];
      }),
    );
  return watchInstances(discovery, { namespace, component: ROUTER_COMPONENT }, onInstances, signal);
}

/** Where resident routers listen, for callers that do not look them up in discovery: `tcp://host:port`, `grpc://host:port`. */
export interface ResidentUrlOptions {
  readonly urls: readonly string[];
  readonly namespace: string;
  readonly clock: Clock;
  /** Addresses of the host name of a URL: a name of several tasks has several, of which one answers. */
  resolve(host: string): Promise<readonly string[]>;
  onChange(residents: readonly ResidentAddress[]): void;
  /** A name could not be resolved; what it stood for before stays. */
  onProblem(url: string, reason: unknown): void;
}

/** Names are looked up so often: tasks come and go behind them. */
const REFRESH_MS = 5000;

/** Follows the addresses behind the URLs. Resolves once every name was looked up; never rejects. */
export async function watchResidentUrls(options: ResidentUrlOptions): Promise<{ close(): void }> {
  const { urls, namespace, clock, resolve, onChange, onProblem } = options;
  const known = new Map<string, readonly ResidentAddress[]>(); // by URL
  let before = '';
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return; // the resolver has a deadline of its own
    isLooking = true;
    await Promise.all(
      urls.map(async (url) => {
        const { protocol, hostname, port } = new URL(url);
        const addressOf = protocol === 'grpc:' ? grpcAddressOf : tcpAddressOf;
        try {
          const hosts = await resolve(hostname.replace(/^\[|\]$/g, ''));
          known.set(
            url,
            [...hosts].sort().map((host) => addressOf(placeOf(host, port), namespace)),
          );
        } catch (reason) {
          onProblem(url, reason);
        }
      }),
    );
    isLooking = false;
    const residents = urls.flatMap((url) => known.get(url) ?? []);
    const now = residents.map(({ instanceId }) => instanceId).join();
    if (now !== before) onChange(residents);
    before = now;
  };
  await look();
  const timer = clock.every(REFRESH_MS, () => void look());
  return { close: () => timer.cancel() };
}

function placeOf(host: string, port: string): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function grpcAddressOf(place: string): ResidentAddress {
  return { instanceId: place, grpc: place };
}

function tcpAddressOf(place: string, namespace: string): ResidentAddress {
  const transportOf = (endpoint: string) => ({
    tcp: `${place}/${WELL_KNOWN_INSTANCE}/${namespace}/${ROUTER_COMPONENT}/${endpoint}`,
  });
  return {
    instanceId: place,
    choose: transportOf(CHOOSE_ENDPOINT),
    release: transportOf(RELEASE_ENDPOINT),
    explain: transportOf(EXPLAIN_ENDPOINT),
  };
}
