import type { EngineRequest } from '../../protocol/generation/index.ts';
import type { AnswerReader } from '../http/exchange.ts';
import type { UpstreamAnswer, UpstreamMessage } from '../http/upstream.ts';
import type { EventSource } from '../kv-stream/event-source.ts';
import type { LaunchCommand } from '../process/engine-process.ts';
import type { EngineInfo, EngineLoad, EngineSink } from '../types.ts';
import type { MetricSample } from './metric-samples.ts';

/** The HTTP server of an engine, for questions that are no requests of clients. */
export interface EngineServer {
  /** A whole answer, whatever its status. Rejects when there is none within the limit (default 5000). */
  ask(message: UpstreamMessage, timeoutMs?: number): Promise<UpstreamAnswer>;
}

/** What an engine said of itself. */
export interface Probed {
  readonly info: EngineInfo;
  /** Where it publishes KV events; undefined = nowhere. */
  readonly events: EventSource | undefined;
  readonly version: string | undefined;
  /** In words, for the log: which of its ways are used. */
  readonly ways: Readonly<Record<string, string>>;
}

/** A request of ours as one exchange with the engine. */
export interface Plan {
  readonly message: UpstreamMessage;
  readonly reader: AnswerReader;
}

/** A request that gives tokens. */
export type TokenRequest = EngineRequest & { readonly input: { readonly kind: 'tokens' } };

/** Addresses that a started engine is told to use. */
export interface LaunchPorts {
  readonly http: number;
  /** First of the ports of KV events, one a rank. */
  readonly events: number;
  /** First of the ports of replays, one a rank. */
  readonly replay: number;
}

/** How an engine is started. */
export interface LaunchPlan {
  /** Data-parallel ranks, each with ports of its own. */
  readonly ranks: number;
  /** First port to look for free ones for KV events; 0 = anywhere. */
  readonly eventsPort: number;
  command(ports: LaunchPorts): LaunchCommand;
  /** Arguments that older versions do not know and that are left out then, each with its values. */
  readonly optional: readonly (readonly string[])[];
  /** What its output says, or its shell, where the program is not installed. */
  readonly missing: RegExp;
  /** What installs it. */
  readonly install: string;
}

/** What differs from one engine server to another. Requests and answers in one place, questions in another. */
export interface EngineDialect {
  readonly kind: 'vllm' | 'sglang';
  /** Answer of the health check that means dead for good; undefined = there is none. */
  readonly deadStatus?: number;
  /** Metrics that `readLoad` looks at. */
  readonly loadMetrics: ReadonlySet<string>;
  /** Sum and count of the time between tokens, in seconds; what older versions call it behind it. */
  readonly latencyMetrics: readonly (readonly [sum: string, count: string])[];
  /** Asks a server that is up what it is and can do. Rejects with what to change. */
  probe(server: EngineServer): Promise<Probed>;
  /** @throws ServeError when the engine cannot do what is asked */
  plan(request: TokenRequest, sink: EngineSink): Plan;
  /** The load of each rank; what the metrics do not say is left out. */
  readLoad(samples: readonly MetricSample[]): readonly PartialLoad[];
  /** Stops a request whose connection is closed already; undefined where closing is enough. */
  abort?(request: EngineRequest): UpstreamMessage;
  clearKvBlocks(server: EngineServer): Promise<void>;
  sleep(server: EngineServer, level: number): Promise<void>;
  wake(server: EngineServer, tags: readonly string[]): Promise<void>;
  loadLora(server: EngineServer, name: string, path: string): Promise<void>;
  unloadLora(server: EngineServer, name: string): Promise<void>;
}

export type PartialLoad = Pick<EngineLoad, 'dpRank'> & Partial<EngineLoad>;
