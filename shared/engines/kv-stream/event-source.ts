import { isIPv6 } from 'node:net';

/** Where an engine publishes the KV events of its first rank, as its own configuration says it. */
export interface EventSource {
  /** ZeroMQ endpoint; further ranks add their number to its port. */
  readonly endpoint: string;
  /** Endpoint that sends past batches again, if there is one. */
  readonly replayEndpoint: string | undefined;
  readonly topic: string;
}

/** What one rank's subscriber does. */
export interface RankSource {
  readonly dpRank: number;
  readonly endpoint: string;
  /** Whether the subscriber binds: an engine connects to an endpoint that has a plain address. */
  readonly binds: boolean;
  readonly replayEndpoint: string | undefined;
  readonly topic: string;
}

/** The sources of all ranks, to reach from this process an engine whose server runs on `host`. */
export function sourcesOfRanks(source: EventSource, ranks: number, host: string): readonly RankSource[] {
  return Array.from({ length: ranks }, (_, dpRank) => ({
    dpRank,
    endpoint: reachable(ofRank(source.endpoint, dpRank), host),
    binds: !isBoundByEngine(source.endpoint),
    replayEndpoint:
      source.replayEndpoint === undefined ? undefined : reachable(ofRank(source.replayEndpoint, dpRank), host),
    topic: source.topic,
  }));
}

/** The engine's own rule. */
function isBoundByEngine(endpoint: string): boolean {
  return endpoint.includes('*') || endpoint.includes('::') || /^(ipc|inproc):/.test(endpoint);
}

/** The last number of a TCP endpoint is its port. */
function ofRank(endpoint: string, dpRank: number): string {
  if (dpRank === 0 || !endpoint.startsWith('tcp:')) return endpoint;
  return endpoint.replace(/\d+$/, (port) => String(Number(port) + dpRank));
}

/** An endpoint with a wildcard is reached where the engine's server is. */
function reachable(endpoint: string, host: string): string {
  const name = isIPv6(host) ? `[${host}]` : host;
  return endpoint.replace(/^tcp:\/\/(\*|0\.0\.0\.0|\[?::\]?)(?=:\d+$)/, `tcp://${name}`);
}
