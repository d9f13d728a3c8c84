import type { KvEvent, SchedulerOptions } from '../engines/index.ts';
import type { PoolRole } from '../router/index.ts';
import type { KvRouterConfig, PolicyProfile, PrefillDurationModel } from '../scheduler/index.ts';
import type { SimulatedRank, SimulatedRequest } from './simulated-rank.ts';

/**
 * How requests find a worker. `load-aware` is `kv` without knowledge of the caches; `stateless` knows only old loads.
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
  /** Milliseconds until a router has an answer. */
  readonly delayMs: number;
}

export interface RoutingOptions {
  readonly mode: RoutingMode;
  /** Routers that share the work: arrivals are dealt to them in turn. */
  readonly routers: number;
  /** Milliseconds until a router knows of another's decisions, first tokens and ends; undefined = never. */
  readonly replicaSyncDelayMs: number | undefined;
  /** Age in milliseconds of the loads that routers of mode `stateless` see. */
  readonly loadAgeMs: number;
  /** How these ask workers what a request would cost there. @default they only hash */
  readonly asking?: AskingOptions | undefined;
  /** Throughput of an accelerator against a CPU, for `device-aware-weighted`. @default 8 */
  readonly cudaToCpuRatio?: number | undefined;
  /** For the modes `kv` and `load-aware`. */
  readonly kv: KvRouterConfig;
  /** Memory of a pool's block index. @default unbounded */
  readonly indexBytesMax?: number | undefined;
  /** Queue classes of these modes. @default one, as `kv` says */
  readonly policies?: PolicyProfile | undefined;
  /** Their predictions of prefill times; the engines keep their own time. @default none */
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
  /** Speeds of the workers in turn, as factors of the engine's own. @default all have that of the engine */
  readonly speeds?: readonly number[] | undefined;
}

export interface CpuWorkers {
  readonly count: number;
  /** Factor by which their passes take longer than an accelerator's. */
  readonly slowdown: number;
}

/** Returns the speed of a worker as a factor of its engine's own. */
export function speedOf(worker: number, { cpus, speeds = [] }: Pick<PoolOptions, 'cpus' | 'speeds'>): number {
  const speed = speeds.length === 0 ? 1 : speeds[worker % speeds.length]!;
  return cpus !== undefined && worker < cpus.count ? speed / cpus.slowdown : speed;
}

/** Pool for which routers are made, and their options. */
export interface RoutedPool extends RoutingOptions, PoolOptions {
  readonly seed: number;
}

/** A pool, as its routers see it. */
export interface PoolView {
  readonly nowMs: number;
  readonly ranks: readonly SimulatedRank[];
  /** Returns the number of the worker that the client named; undefined if it named none. */
  workerNamedBy(request: number): number | undefined;
  after(delayMs: number, callback: () => void): void;
  /** Returns the request's wishes for the routers' queue. */
  hintsOf(request: number): { readonly priorityJump: number; readonly strictPriority: number };
  /**
   * Returns the first turn of the request's conversation, by its place in the workload; undefined if the workload has
   * no turns.
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
  /** Whether the routers need `kvEvents`. @default false */
  readonly wantsKvEvents?: boolean;
  /** Whether the routers need `grown`. @default false */
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
