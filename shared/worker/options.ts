import type { Clock, Random } from '../clock/index.ts';
import type { Discovery, HostFacts } from '../discovery/index.ts';
import type { Engine, EngineInfo, ModelFacts } from '../engines/index.ts';
import type { EventPlane, PlannerOutbox, RequestPlane } from '../planes/index.ts';
import type { Logger, Tracer, WorkerMetrics } from '../telemetry/index.ts';
import type { AdapterCache } from './adapters/adapter-cache.ts';
import type { EndpointHealth } from './control/endpoint-health.ts';
import type { CardSettings, ServedNames } from './model-card.ts';

/** Address of a worker in its fleet. */
export interface WorkerAddress {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

export interface CanarySettings {
  readonly idleMs: number;
  readonly timeoutMs: number;
  /** Value of `timeoutMs` for an engine that has not answered yet. @default timeoutMs */
  readonly warmUpMs?: number | undefined;
  /** Request to send in place of the one that the model's card suggests. */
  readonly payload?: Readonly<Record<string, unknown>> | undefined;
}

/** Defaults of `WorkerSettings`. */
export const DEFAULT_WORKER_SETTINGS = {
  /** How long streams may continue after a drain began, before the movable ones are moved. */
  graceMs: 5000,
  /** How long streams that cannot move may continue after a drain began. */
  drainLimitMs: 900_000,
  /** How long a prefill worker keeps its engine after the last prompt, so that decode workers can fetch its blocks. */
  prefillDrainMs: 0,
  /** Requests that the engine may have at once (`--engine-request-limit`); undefined = no limit. */
  requestLimit: undefined as number | undefined,
  /** Requests that may wait for one of those to end (`DYN_DYNAMO_REQUEST_QUEUE_LIMIT`). */
  requestQueueLimit: 16,
  loadReportIntervalMs: 1000,
  /** Interval between two messages to planners; 0 = none (`STATOR_EVENT_ROLLUP_INTERVAL_MS`). */
  rollupIntervalMs: 5000,
  /** Number of the engine's GPUs, as planners count them. */
  gpus: 1,
  /** Interval between two checks for a large change of load. */
  loadLookIntervalMs: 100,
  /** Interval between two checks of the engine's health. */
  healthIntervalMs: 2000,
  /** Time limit of a check. A check that exceeds it shows that the engine is down. */
  healthTimeoutMs: 30_000,
  /** Longest wait for the engine to stop. */
  engineStopMs: 60_000,
  /** Whether the worker keeps an index of its published events, and answers routers that missed some. */
  enableLocalIndexer: true,
  /** Whether adapters may be loaded and unloaded (`DYN_LORA_ENABLED`). */
  servesAdapters: false,
  /** Depth of a sleep if the request names none. */
  sleepLevel: 1,
  /** Probes of an idle engine (`DYN_HEALTH_CHECK_ENABLED`); undefined = none. */
  canary: undefined as CanarySettings | undefined,
  /** Longest write of one record to discovery after the worker has started. */
  discoveryTimeoutMs: 5000,
};

export type WorkerSettings = Readonly<typeof DEFAULT_WORKER_SETTINGS>;

/** `WorkerOptions` with every setting. */
export type SettledOptions = WorkerOptions & { readonly settings: WorkerSettings };

/**
 * The objects and settings of a worker. It stops the engine. The planes and discovery stay open, because others may use
 * them.
 */
export interface WorkerOptions {
  readonly engine: Engine;
  readonly discovery: Discovery;
  readonly requestPlane: RequestPlane;
  readonly eventPlane: EventPlane;
  readonly address: WorkerAddress;
  /** Machine of the worker, for planners. @default unknown */
  readonly host?: HostFacts | undefined;
  /** Device of the engine, for routers that weigh devices. @default the device that the engine reports */
  readonly deviceType?: string | undefined;
  /** Facts about the model, or a function that finds them once the engine has loaded it. */
  readonly model: ModelFacts | ((engine: EngineInfo) => Promise<ModelFacts>);
  readonly names: ServedNames;
  /**
   * Address (`host:port`) of the status server, from which other processes fetch the files of the model. @default none
   */
  readonly filesFrom?: string | undefined;
  readonly card?: CardSettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Creates a span for every request; undefined = no spans. */
  readonly tracer?: Tracer | undefined;
  readonly metrics: WorkerMetrics;
  /** Health that shows the readiness of the worker. */
  readonly health?: EndpointHealth;
  /** Id of the worker, in lower-case hex. @default a new one */
  readonly instanceId?: string;
  readonly settings?: Partial<WorkerSettings>;
  /** Receives the messages to planners, in addition to the event plane. @default no queue */
  readonly plannerOutbox?: Pick<PlannerOutbox, 'put'> | undefined;
  /** Cache of adapters from buckets. @default the worker loads none from there */
  readonly adapterCache?: AdapterCache | undefined;
}
