import type { Clock, Random } from '../clock/index.ts';
import type { Discovery } from '../discovery/index.ts';
import type { Engine, EngineInfo, ModelFacts } from '../engines/index.ts';
import type { EventPlane, PlannerOutbox, RequestPlane } from '../planes/index.ts';
import type { Logger, Tracer, WorkerMetrics } from '../telemetry/index.ts';
import type { AdapterCache } from './adapters/adapter-cache.ts';
import type { EndpointHealth } from './control/endpoint-health.ts';
import type { CardSettings, ServedNames } from './model-card.ts';

/** Where a worker stands in the namespace. */
export interface WorkerAddress {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

export interface CanarySettings {
  readonly idleMs: number;
  readonly timeoutMs: number;
  /** `timeoutMs` of an engine that has not answered yet. @default timeoutMs */
  readonly warmUpMs?: number | undefined;
  /** In place of the request that the model's card suggests. */
  readonly payload?: Readonly<Record<string, unknown>> | undefined;
}

/** What `WorkerSettings` are unless given. */
export const DEFAULT_WORKER_SETTINGS = {
  /** How long streams may run on after a drain began, before those that can move are moved. */
  graceMs: 5000,
  /** How long streams that cannot move may run on after a drain began. */
  drainLimitMs: 900_000,
  /** How long a prefill worker keeps its engine after the last prompt, for decode workers to fetch. */
  prefillDrainMs: 0,
  /** Requests that the engine has at once (`--engine-request-limit`); undefined = no limit. */
  requestLimit: undefined as number | undefined,
  /** Requests that wait for one of those to end (`DYN_DYNAMO_REQUEST_QUEUE_LIMIT`). */
  requestQueueLimit: 16,
  loadReportIntervalMs: 1000,
  /** Between two messages to planners; 0 = none (`STATOR_EVENT_ROLLUP_INTERVAL_MS`). */
  rollupIntervalMs: 5000,
  /** GPUs of the engine, as planners count them. */
  gpus: 1,
  /** How often a large change of load is looked for. */
  loadLookIntervalMs: 100,
  /** Between two checks of the engine's health. */
  healthIntervalMs: 2000,
  /** Longest check; one that takes longer says that the engine is down. */
  healthTimeoutMs: 30_000,
  /** Longest wait for the engine to stop. */
  engineStopMs: 60_000,
  /** Whether the worker keeps an index of what it published and answers routers that missed some. */
  enableLocalIndexer: true,
  /** Whether adapters may be loaded and unloaded (`DYN_LORA_ENABLED`). */
  servesAdapters: false,
  /** Depth of a sleep that does not name one. */
  sleepLevel: 1,
  /** Probes of an idle engine (`DYN_HEALTH_CHECK_ENABLED`); undefined = none. */
  canary: undefined as CanarySettings | undefined,
  /** Longest write of one record to discovery once the worker has started. */
  discoveryTimeoutMs: 5000,
};

export type WorkerSettings = Readonly<typeof DEFAULT_WORKER_SETTINGS>;

/** `WorkerOptions` with every setting. */
export type SettledOptions = WorkerOptions & { readonly settings: WorkerSettings };

/** What a worker is made of. It stops the engine; the planes and discovery stay open, as others may use them. */
export interface WorkerOptions {
  readonly engine: Engine;
  readonly discovery: Discovery;
  readonly requestPlane: RequestPlane;
  readonly eventPlane: EventPlane;
  readonly address: WorkerAddress;
  /** What the engine runs on, for routers that weigh devices. @default what the engine says of itself */
  readonly deviceType?: string | undefined;
  /** What is known of the model, or how to find out once the engine has loaded it. */
  readonly model: ModelFacts | ((engine: EngineInfo) => Promise<ModelFacts>);
  readonly names: ServedNames;
  /** `host:port` of the status server, from which others fetch the files of the model. @default nowhere */
  readonly filesFrom?: string | undefined;
  readonly card?: CardSettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Makes a span of every request; undefined = none are made. */
  readonly tracer?: Tracer | undefined;
  readonly metrics: WorkerMetrics;
  /** Where readiness shows, if somebody looks. */
  readonly health?: EndpointHealth;
  /** Lower-case hex. Default: a new one. */
  readonly instanceId?: string;
  readonly settings?: Partial<WorkerSettings>;
  /** Takes what planners are told beside the event plane. Default: nothing does. */
  readonly plannerOutbox?: Pick<PlannerOutbox, 'put'> | undefined;
  /** Where adapters out of buckets are kept. Default: none are loaded from there. */
  readonly adapterCache?: AdapterCache | undefined;
}
