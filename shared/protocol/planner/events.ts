import * as z from 'zod';
import { AGGREGATED_RANKS_MAX, PASS_SAMPLES_MAX, PLANNER_EVENT_VERSION, START_PHASES } from './topics.ts';

const count = z.number().int().min(0).max(1e15);
const amount = z.number().min(0).max(1e15);
const name = z.string().min(1).max(512);
const id = z.string().min(1).max(128);
/** Unix milliseconds: from 2001 to 2286. */
const at = z.number().min(1e12).max(1e13);
const rankNumber = z.number().int().min(0).max(4095);
const poolName = z.enum(['prefill', 'decode', 'agg']);

/**
 * One pass of a rank. Its work: seconds (0 = the heartbeat of an idle engine), prefilling requests, tokens computed for
 * them, their tokens read from the cache, decoding requests, their context. Its waiting work: requests to prefill and
 * their tokens, preempted requests and their context.
 */
const passRow = z.tuple([z.number().min(0).max(3600), count, count, count, count, count, count, count, count, count]);

/**
 * Sums since the source began (its epoch), so that the next message makes up for a lost one. Times in seconds, lengths
 * in tokens.
 */
const totals = z.object({
  /** Requests that came for the first time; retries and moves from another worker do not count. */
  started: count,
  completed: count,
  ttft_sum_s: amount,
  ttft_count: count,
  /** Total time between tokens, and the number of gaps. */
  itl_sum_s: amount,
  itl_count: count,
  isl_sum: count,
  isl_count: count,
  osl_sum: count,
  osl_count: count,
  dur_sum_s: amount,
  dur_count: count,
  /** Prompt tokens found in the cache, and the prompt tokens for which that is known. */
  kv_hit_sum: count,
  kv_hit_count: count,
});

const engine = z.object({
  gpus: z.number().int().min(1).max(4096),
  kv_block_size: z.number().int().min(1).max(1e6),
  max_num_seqs: count.optional(),
  max_num_batched_tokens: count.optional(),
  context_length: count.optional(),
  /** KV tokens of one rank. */
  max_kv_tokens: count.optional(),
});

const rank = z.object({
  dp_rank: rankNumber,
  running: count,
  waiting: count,
  kv_blocks: count,
  kv_blocks_max: count,
  prefill_tokens: count,
  last: passRow.optional(),
  samples: z.array(passRow).max(PASS_SAMPLES_MAX).optional(),
});

const common = { v: z.literal(PLANNER_EVENT_VERSION), namespace: name, model: name, epoch: id, seq: count };
const ofWorker = { ...common, component: poolName, worker_id: id };

/** Machine of a worker, as `STATOR_HOST_FACTS` states it. */
const host = z.object({
  instance_id: id,
  instance_type: id.optional(),
  zone: id.optional(),
  market: id.optional(),
  group: id.optional(),
  generation: id.optional(),
});

/** Report of a worker on its own traffic and load, every five seconds: all ranks in one. */
const workerRollup = z.object({
  type: z.literal('worker.rollup'),
  ...ofWorker,
  at,
  totals,
  ranks: z.array(rank).min(1).max(1024),
  engine,
  /** Whether the engine measured `last` and `samples`; otherwise they are derived from its load. */
  has_passes: z.boolean(),
  draining: z.boolean().optional(),
  host: host.optional(),
});

/** `[worker, data-parallel rank, ...pass]` */
const engineRow = z.tuple([id, rankNumber]).rest(z.number().min(0).max(1e15));

const aggregatedPool = z
  .object({
    /** Ids of the workers that serve. Absent = `worker_keys`. */
    workers: z.array(id).max(100_000).optional(),
    /** Instance of each of `workers`, in their order; null = unknown. Absent if all are unknown. */
    instances: z.array(id.nullable()).max(100_000).optional(),
    /** Keys of the workers that serve (`packWorkerKeys`), for fleets whose ids have no room in an event. */
    worker_keys: z.base64().max(256_000).optional(),
    /** Keys of further workers, whose instances are known (`packSortedKeys`). */
    hosted_keys: z.base64().max(256_000).optional(),
    running: count,
    waiting: count,
    /** Workers at which more requests wait than run. */
    behind: count.optional(),
    /** Share of the KV cache in use: mean over the ranks. */
    kv_use: z.number().min(0).max(1).optional(),
    totals,
    engine: engine.optional(),
    has_passes: z.boolean(),
    /** The last pass of each rank, as far as there is room. */
    engines: z.array(engineRow).max(AGGREGATED_RANKS_MAX).optional(),
    /** Ranks that were left out of `engines`. */
    engines_left_out: count.optional(),
    samples: z.array(passRow).max(PASS_SAMPLES_MAX).optional(),
  })
  .refine((pool) => (pool.workers === undefined) !== (pool.worker_keys === undefined), {
    path: ['workers'],
    message: 'expected either workers or worker_keys',
  })
  .refine(({ workers, instances }) => instances === undefined || instances.length === workers?.length, {
    path: ['instances'],
    message: 'expected one for each of workers',
  });

/**
 * Report on all workers of a model, aggregated by one process: one message every five seconds, whatever the size of the
 * fleet.
 */
const modelRollup = z.object({
  type: z.literal('model.rollup'),
  ...common,
  source: id,
  at,
  pools: z.partialRecord(poolName, aggregatedPool),
});

const workerChange = z.object({
  type: z.enum(['worker.registered', 'worker.draining', 'worker.gone']),
  ...ofWorker,
  at,
  instance_id: id.optional(),
  zone: id.optional(),
  market: id.optional(),
  engine: engine.optional(),
});

/** Requests wait for a worker. Sent for the first one, then every five seconds while any waits. */
const requestHeld = z.object({
  type: z.literal('request.held'),
  ...common,
  source: id,
  held_count: count.max(1e9),
  oldest_at: at,
});

const capacityFailed = z.object({
  type: z.literal('capacity.failed'),
  ...common,
  source: id,
  component: poolName,
  code: name,
  instance_types: z.array(name).max(64),
  zone: name.optional(),
  activity_id: name,
  at,
});

/**
 * Kinds of interruptions of an instance: it ends in two minutes, it may end soon, its capacity block ends, its hardware
 * is retired, or its end has begun.
 */
const INTERRUPTIONS = ['spot-warning', 'rebalance', 'block-end', 'retirement', 'termination'] as const;

const capacityInterrupt = z.object({
  type: z.literal('capacity.interrupt'),
  ...common,
  source: id,
  component: poolName,
  instance_id: id,
  /** The worker on it, if known. */
  worker_id: id.optional(),
  kind: z.enum(INTERRUPTIONS),
  deadline_at: at.optional(),
  at,
});

/** Phase that the start of a machine has reached. `serving` and `failed` end the start. */
const hostPhase = z.object({
  type: z.literal('host.phase'),
  ...common,
  source: id,
  component: poolName,
  instance_id: id,
  phase: z.enum([...START_PHASES, 'serving', 'failed']),
  /** Seconds that each phase took, once the machine serves. */
  took_s: z.partialRecord(z.enum(START_PHASES), z.number().min(0).max(1e9)).optional(),
  at,
});

/**
 * Time goes on, even if nothing happens. A scheduler sends an ISO time or none, the id of its execution as epoch, and 0
 * as number: planners count by the queue's clock.
 */
const tick = z.object({
  type: z.literal('tick'),
  ...common,
  source: id,
  at: z.union([at, z.iso.datetime({ offset: true })]).optional(),
});

const targets = z.object({ prefill: count.max(1e6).optional(), decode: count.max(1e6).optional() });

/** A decision; `decision_id` grows by one with each decision of a model. */
const scaleDecision = z.object({
  type: z.literal('scale.decision'),
  v: z.literal(PLANNER_EVENT_VERSION),
  namespace: name,
  model: name,
  decision_id: count,
  targets,
  previous: targets,
  reason: z.string().max(2000),
  advisory: z.boolean(),
  config_hash: id,
  decided_at: at,
});

/** The environment has carried out a decision, or says why not. */
const scaleAck = z.object({
  type: z.literal('scale.ack'),
  ...common,
  source: id,
  decision_id: count,
  observed: targets,
  status: z.enum(['applied', 'failed']),
  at,
});

export const PLANNER_EVENT = z.discriminatedUnion('type', [
  workerRollup,
  modelRollup,
  workerChange,
  requestHeld,
  capacityFailed,
  capacityInterrupt,
  hostPhase,
  tick,
  scaleDecision,
  scaleAck,
]);

export type PlannerEvent = z.output<typeof PLANNER_EVENT>;
export type PlannerEventType = PlannerEvent['type'];
export type PlannerEventOf<T extends PlannerEventType> = Extract<PlannerEvent, { readonly type: T }>;
/** Event that a planner takes in. A decision is an event that it sends. */
export type PlannerSignal = Exclude<PlannerEvent, { readonly type: 'scale.decision' }>;
export type PassRow = z.output<typeof passRow>;
export type TrafficTotals = z.output<typeof totals>;
export type EngineFacts = z.output<typeof engine>;
export type RankLoadRow = z.output<typeof rank>;
export type AggregatedPool = z.output<typeof aggregatedPool>;
export type PoolName = z.output<typeof poolName>;
export type InterruptionKind = (typeof INTERRUPTIONS)[number];
