import { BUCKETS, type Buckets } from './buckets.ts';
import type { Counter, MetricRegistry } from './registry.ts';
import { defineRouterFamilies, type RouterFamilies, type RouterIdentity } from './router-families.ts';

/** Label `worker_type`: aggregated workers decode. */
export type RouterWorkerType = 'prefill' | 'decode';
/** Label `phase`. */
export type RouterPhase = 'prefill' | 'decode' | 'aggregated';

/** Figures that one decision was made on. */
export interface DecisionFigures {
  readonly promptTokens: number;
  /** Cached tokens of the chosen worker, as far as the router knows. */
  readonly cachedTokens: number;
  /** Cached tokens of the worker that has the most. */
  readonly bestCachedTokens: number;
  /** Cached blocks that another worker has more than the chosen one. */
  readonly blocksLost: number;
  readonly sharedBeyondBlocks: number;
  readonly matchMs: number;
  readonly schedulingMs: number;
}

export type KvEventType = 'stored' | 'removed' | 'cleared';

export interface RouterMetricsOptions extends RouterIdentity {
  readonly registry: MetricRegistry;
  /** Whether requests are routed by KV cache; the index's series exist only then. */
  readonly isKvMode: boolean;
  /** Histogram ranges. @default those of the settings' defaults */
  readonly buckets?: Buckets;
}

const EVENT_TYPES: readonly KvEventType[] = ['stored', 'removed', 'cleared'];
const STATUSES = [
  'ok',
  'parent_block_not_found',
  'block_not_found',
  'invalid_block',
  'capacity_exhausted',
  'unsupported_residency_domain',
];

/** Metrics of the router in a frontend. Nothing here throws or waits. */
export type RouterMetrics = ReturnType<typeof createRouterMetrics>;

/** Makes the router's metrics. Those of requests are at zero in every mode and count only in mode `kv`. */
export function createRouterMetrics(options: RouterMetricsOptions) {
  const { registry, routerId, isKvMode, buckets = BUCKETS } = options;
  const families = defineRouterFamilies(registry, options, buckets);
  const overhead = overheadOf(families);
  const applied = new Map<string, Counter>();
  if (isKvMode) {
    for (const type of EVENT_TYPES) {
      for (const status of STATUSES) applied.set(`${type} ${status}`, families.applied.with(type, status));
    }
    families.warnings.with('duplicate_store');
  }
  return {
    /** Value of the label `router_id`. */
    routerId,
    pool: (model: string, workerType: RouterWorkerType, phase: RouterPhase): RouterPoolMetrics =>
      poolMetrics(families, overhead, { model, workerType, phase }),
    hashed: (ms: number) => overhead.hashed(ms),
    firstToken: (ms: number) => families.ttft.observe(ms / 1000),
    /** `tokens` came `gapMs` after those before. */
    tokens: (gapMs: number, tokens: number) => families.itl.observe(gapMs / 1000 / tokens, tokens),
    ended(outputTokens: number): void {
      families.ended.add();
      if (outputTokens > 0) families.outputTokens.observe(outputTokens);
    },
    /** From the end of a remote prefill to the first token of the decode worker. */
    transferred: (ms: number) => families.transfer.observe(ms / 1000),
    /** A rank can be routed to, or no longer. `workerId` is hex. */
    registered: (workerId: string, dpRank: number, workerType: RouterWorkerType) =>
      families.registered.with(workerId, `${dpRank}`, workerType).set(1),
    unregistered: (workerId: string) => families.registered.removeWhere('router_worker_id', workerId),
    applied: (type: KvEventType, status: string) => applied.get(`${type} ${status}`)?.add(),
    /** Blocks stored where they were held already, since the start. */
    duplicates(total: number): void {
      families.warnings.with('duplicate_store').value = total;
    },
    skipped: (reason: string) => families.skippedEvents.with(reason).add(),
    stale: () => families.staleEvents.add(),
    dropped: () => families.droppedEvents.add(),
    recovered: (kind: 'restore' | 'gap', outcome: 'ok' | 'failed') => families.recoveries.with(kind, outcome).add(),
    /** Another router booked a request that is not remembered, as too many are. */
    peerBookingUnremembered: () => families.forgottenBookings.add(),
    /** Requests at the workers that neither this router nor one that it hears of has sent. */
    unattributedRequests: (requests: number) => families.unattributed.set(requests),
  };
}

type Overhead = ReturnType<typeof overheadOf>;

function overheadOf({ blockHashing, seqHashing, findMatches, scheduling, total }: RouterFamilies) {
  let hashedMs = 0; // of the request that is being decided: hashing and decision happen in one turn
  return {
    hashed(ms: number): void {
      hashedMs = ms;
      blockHashing.observe(ms);
      seqHashing.observe(0);
    },
    decided(matchMs: number, schedulingMs: number): void {
      findMatches.observe(matchMs);
      scheduling.observe(schedulingMs);
      total.observe(hashedMs + matchMs + schedulingMs);
      hashedMs = 0;
    },
  };
}

/** The router's metrics for one pool of workers. Called in the path of requests: series are looked up once. */
export type RouterPoolMetrics = ReturnType<typeof poolMetrics>;

function poolMetrics(
  families: RouterFamilies,
  overhead: Overhead,
  { model, workerType, phase }: { model: string; workerType: RouterWorkerType; phase: RouterPhase },
) {
  const { started, hitRate, sharedBeyond } = families;
  const inputTokens = families.inputTokens.with(model, phase);
  const bestCached = families.bestCached.with(model, phase);
  const selectedCached = families.selectedCached.with(model, phase);
  const reused = families.reused.with(model, phase);
  const nonMax = families.nonMaxSelections.with(workerType);
  const lost = families.overlapLost.with(workerType);
  const pending = new Map<string, ReturnType<typeof pendingSeries>>(); // bounded by the classes
  let lastClass: string | undefined; // nearly always the same, and once a request
  let received: Counter | undefined;
  return {
    /** A request asked for a worker. */
    received(policyClass: string): void {
      if (policyClass !== lastClass) received = families.admissionReceived.with(model, workerType, policyClass);
      lastClass = policyClass;
      received?.add();
    },
    /** It got none, because of the queue. */
    backpressure(policyClass: string, reason: string): void {
      families.backpressure.with(model, workerType, policyClass, reason).add();
      families.admissionRejected.with(model, workerType, policyClass, reason).add();
    },
    /** Sets what waits in a class now. */
    pending(policyClass: string, requests: number, promptTokens: number, cachedTokens: number): void {
      let series = pending.get(policyClass);
      if (series === undefined) {
        series = pendingSeries(families, [model, workerType, policyClass]);
        pending.set(policyClass, series);
      }
      series.requests.set(requests);
      series.promptTokens.set(promptTokens);
      series.cachedTokens.set(cachedTokens);
    },
    decided(figures: DecisionFigures): void {
      const { promptTokens, cachedTokens, blocksLost } = figures;
      started.add();
      overhead.decided(figures.matchMs, figures.schedulingMs);
      hitRate.observe(promptTokens === 0 ? 0 : Math.min(1, cachedTokens / promptTokens));
      sharedBeyond.observe(figures.sharedBeyondBlocks);
      inputTokens.observe(promptTokens);
      bestCached.add(figures.bestCachedTokens);
      selectedCached.add(cachedTokens);
      if (blocksLost <= 0) return;
      nonMax.add();
      lost.observe(blocksLost);
    },
    /** Worker's own count of the prompt tokens it had cached. */
    reused: (tokens: number) => reused.add(tokens),
    indexBlocks: (blocks: number) => families.indexBlocks.with(model).set(blocks),
    /** Memory taken for them. */
    indexBytes: (bytes: number) => families.indexBytes.with(model).set(bytes),
    /** Sets the memory that it may take while the other indexes of the process keep theirs. */
    indexBytesAllowed: (bytes: number) => families.indexBytesAllowed.with(model).set(bytes),
    indexEvicted: (blocks: number) => families.evictedBlocks.with(model).add(blocks),
  };
}

function pendingSeries(families: RouterFamilies, labels: readonly string[]) {
  return {
    requests: families.pendingRequests.with(...labels),
    promptTokens: families.pendingIslTokens.with(...labels),
    cachedTokens: families.pendingCachedTokens.with(...labels),
  };
}
