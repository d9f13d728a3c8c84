import type { Clock } from '../../clock/index.ts';
import {
  CHOOSE_ENDPOINT,
  EXPLAIN_ENDPOINT,
  RELEASE_ENDPOINT,
  ROUTER_COMPONENT,
  WELL_KNOWN_INSTANCE,
} from './messages.ts';
import type { ResidentAddress } from './resident-channel.ts';

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
