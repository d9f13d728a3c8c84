import { isIPv6 } from 'node:net';

/** Where an engine publishes KV events, as its own configuration says it. */
export interface EventSource {
  /** ZeroMQ endpoint of the rank that the engine numbers 0; the others add their number to its port. */
  readonly endpoint: string;
  /** Endpoint that sends past batches again, if there is one. */
  readonly replayEndpoint: string | undefined;
  readonly topic: string;
  /** Whether the engine binds the endpoint. Default: as vLLM does, where the address is a wildcard or no address at all. */
  readonly isBound?: boolean | undefined;
}

/** Where one rank publishes, as the engine's server says it. */
export type ListedRank = Pick<EventSource, 'endpoint' | 'replayEndpoint'>;

/** Ranks whose events are followed, in the order in which requests name them. */
export interface FollowedRanks {
  /** What the engine itself calls the first of them: one of many servers may run the later ranks alone. */
  readonly first: number;
  readonly count: number;
  /** By the engine's own number of a rank; wins over what the source says of it. @default none */
  readonly listed?: ReadonlyMap<number, ListedRank> | undefined;
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
      binds: !(source.isBound ?? isBoundByEngine(source.endpoint)),
      replayEndpoint: replay === undefined ? undefined : reachable(replay, host),
      topic: source.topic,
    };
  });
}

/** vLLM's rule. */
function isBoundByEngine(endpoint: string): boolean {
  return endpoint.includes('*') || endpoint.includes('::') || /^(ipc|inproc):/.test(endpoint);
}

/** The last number of a TCP endpoint is its port. */
function ofRank<T extends string | undefined>(endpoint: T, rank: number): T {
  if (rank === 0 || endpoint?.startsWith('tcp:') !== true || isChosenLater(endpoint)) return endpoint;
  return endpoint.replace(/\d+$/, (port) => String(Number(port) + rank)) as T;
}

/** Port 0: the system chooses one when the engine binds it. */
export function isChosenLater(endpoint: string | undefined): boolean {
  return endpoint !== undefined && /^tcp:.*:0$/.test(endpoint);
}

/** An endpoint with a wildcard is reached where the engine's server is. */
function reachable(endpoint: string, host: string): string {
  const name = isIPv6(host) ? `[${host}]` : host;
  return endpoint.replace(/^tcp:\/\/(\*|0\.0\.0\.0|\[?::\]?)(?=:\d+$)/, `tcp://${name}`);
}
