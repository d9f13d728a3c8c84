import type { KvEvent, SchedulerOptions } from '../engines/index.ts';
import type { PoolRole } from '../router/index.ts';
import type { KvRouterConfig, PolicyProfile, PrefillDurationModel } from '../scheduler/index.ts';
import type { SimulatedRank, SimulatedRequest } from './simulated-rank.ts';

/**
 * How requests find a worker. `load-aware` is `kv` without knowledge of the caches, `stateless` without that of
 * anything but old loads.
 */
export type RoutingMode =
  | 'round-robin'
  | 'random'
  | 'power-of-two'
  | 'least-loaded'
  | 'device-aware-weighted'
  | 'direct'
  | 'load-aware'
  | 'kv'
  | 'stateless';

export interface AskingOptions {
  /** Workers that one request asks. */
  readonly workersMax: number;
  /** Until a router has an answer. */
  readonly delayMs: number;
}

export interface RoutingOptions {
  readonly mode: RoutingMode;
  /** Routers that share the work: arrivals are dealt to them in turn. */
  readonly routers: number;
  /** Until a router knows of another's decisions, first tokens and ends; undefined = it never does. */
  readonly replicaSyncDelayMs: number | undefined;
  /** How old the loads are that routers of mode `stateless` see. */
  readonly loadAgeMs: number;
  /** Whether those ask workers what a request would cost there. @default they hash alone */
  readonly asking?: AskingOptions | undefined;
  /** Throughput of an accelerator against a CPU, for `device-aware-weighted`. @default 8 */
  readonly cudaToCpuRatio?: number | undefined;
  /** For the modes `kv` and `load-aware`. */
  readonly kv: KvRouterConfig;
  /** Memory of a pool's block index. @default unbounded */
  readonly indexBytesMax?: number | undefined;
  /** Queue classes of those. @default one, as `kv` says */
  readonly policies?: PolicyProfile | undefined;
  /** What they take prefills to last; the engines keep their own time. @default they do not predict */
  readonly prefillDuration?: PrefillDurationModel | undefined;
}

/** The workers of one pool. */
export interface PoolOptions {
  readonly role: PoolRole;
  readonly workers: number;
  /** Ranks of a worker. */
  readonly dataParallelSize: number;
  readonly engine: SchedulerOptions;
  /** The first workers are CPUs. @default none is */
  readonly cpus?: CpuWorkers | undefined;
}

export interface CpuWorkers {
  readonly count: number;
  /** How often as long as an accelerator's their passes take. */
  readonly slowdown: number;
}

/** What routers are made for. */
export interface RoutedPool extends RoutingOptions, PoolOptions {
  readonly seed: number;
}

/** A pool, as its routers see it. */
export interface PoolView {
  readonly nowMs: number;
  readonly ranks: readonly SimulatedRank[];
  /** Number of the worker that the client named; undefined where it named none. */
  workerNamedBy(request: number): number | undefined;
  after(delayMs: number, callback: () => void): void;
  /** What the workload asks of the routers' queue. */
  hintsOf(request: number): { readonly priorityJump: number; readonly strictPriority: number };
  /**
   * The first turn of the conversation that a request belongs to, by its place in the workload; undefined where nothing
   * is said of turns.
   */
  firstTurnOf(request: number): number | undefined;
  /** Sends a request to the rank a router chose. */
  dispatch(request: SimulatedRequest, rank: number): void;
  /** Turns a request away: no rank can hold it, or its router does not take it. */
  refuse(request: SimulatedRequest): void;
}

/** The routers of a pool, as the fleet sees them. */
export interface RouterBench {
  /** Routers that share the work. */
  readonly count: number;
  /** Requests that wait in routers' queues. */
  readonly pending: number;
  /** Whether `kvEvents` is listened to. @default false */
  readonly wantsKvEvents?: boolean;
  /** Whether `grown` is listened to. @default false */
  readonly wantsGrowth?: boolean;
  /** The workers that take requests from now on, by number. */
  setWorkers(numbers: readonly number[]): void;
  /** A request arrived at its router, which dispatches it now or later. */
  submit(request: SimulatedRequest): void;
  firstToken?(request: SimulatedRequest): void;
  /** The output of the request reached another block. */
  grown?(request: SimulatedRequest): void;
  finished?(request: SimulatedRequest): void;
  kvEvents?(rank: number, events: readonly KvEvent[]): void;
}
