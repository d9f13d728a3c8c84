import { isIPv6 } from 'node:net';

/** Place where an engine publishes KV events, according to its own configuration. */
export interface EventSource {
  /** ZeroMQ endpoint of the rank that the engine numbers 0; other ranks add their number to its port. */
  readonly endpoint: string;
  /** Endpoint that sends past batches again, if there is one. */
  readonly replayEndpoint: string | undefined;
  readonly topic: string;
  /**
   * Whether the engine binds the endpoint. @default as vLLM does: if the address is a wildcard or not an address at all
   */
  readonly isBound?: boolean | undefined;
}

/** Endpoints of one rank, as the engine's server lists them. */
export type ListedRank = Pick<EventSource, 'endpoint' | 'replayEndpoint'>;

/** Ranks whose events are followed, in the order in which requests name them. */
export interface FollowedRanks {
  /** Number that the engine itself gives to the first of them: one of many servers may run only later ranks. */
  readonly first: number;
  readonly count: number;
  /** Endpoints by the engine's own number of a rank; they take precedence over `EventSource`. @default none */
  readonly listed?: ReadonlyMap<number, ListedRank> | undefined;
}

/** Settings of one rank's subscriber. */
export interface RankSource {
  readonly dpRank: number;
  readonly endpoint: string;
  /** Whether the subscriber binds: an engine connects to an endpoint with a plain address. */
  readonly binds: boolean;
  readonly replayEndpoint: string | undefined;
  readonly topic: string;
}

/** Returns the sources of all ranks, as this process reaches an engine whose server runs on `host`. */
export function sourcesOfRanks(
  source: EventSource,
  { first, count, listed }: FollowedRanks,
  host: string,
): readonly RankSource[] {
  return Array.from({ length: count }, (_, dpRank) => {
    const number = first + dpRank;
    const said = listed?.get(number);
    const endpoint = said?.endpoint ?? ofRank(source.endpoint, number);
    const replay = said === undefined ? ofRank(source.replayEndpoint, number) : said.replayEndpoint;
    return {
      dpRank,
      endpoint: reachable(endpoint, host),
      binds: !isBoundByEngine(source),
      replayEndpoint: replay === undefined ? undefined : reachable(replay, host),
      topic: source.topic,
    };
  });
}

/** Returns whether the engine binds: by its own option, or by vLLM's rule. Otherwise it connects to this process. */
export function isBoundByEngine({ isBound, endpoint }: EventSource): boolean {
  return isBound ?? (endpoint.includes('*') || endpoint.includes('::') || /^(ipc|inproc):/.test(endpoint));
}

/** Returns the endpoint of a rank: the last number of a TCP endpoint is its port. */
function ofRank<T extends string | undefined>(endpoint: T, rank: number): T {
  if (rank === 0 || endpoint?.startsWith('tcp:') !== true || isChosenLater(endpoint)) return endpoint;
  return endpoint.replace(/\d+$/, (port) => String(Number(port) + rank)) as T;
}

/** Returns whether the port is 0, which the system chooses when the engine binds it. */
export function isChosenLater(endpoint: string | undefined): boolean {
  return endpoint !== undefined && /^tcp:.*:0$/.test(endpoint);
}

/** Replaces a wildcard by the host of the engine's server. */
function reachable(endpoint: string, host: string): string {
  const name = isIPv6(host) ? `[${host}]` : host;
  return endpoint.replace(/^tcp:\/\/(\*|0\.0\.0\.0|\[?::\]?)(?=:\d+$)/, `tcp://${name}`);
}
