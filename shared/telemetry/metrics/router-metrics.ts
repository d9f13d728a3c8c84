import { type Logger, silentLogger } from '../log/logger.ts';
import type { BucketOverrides } from './buckets.ts';
import type { Counter, MetricRegistry } from './registry.ts';
import { defineRouterFamilies, type RouterFamilies } from './router-families.ts';

/** Label `worker_type`: aggregated workers decode. */
export type RouterWorkerType = 'prefill' | 'decode';
/** Label `phase`. */
export type RouterPhase = 'prefill' | 'decode' | 'aggregated';

/** What one decision was made on. */
export interface DecisionFigures {
  readonly promptTokens: number;
  /** Of the chosen worker, as the router knows. */
  readonly cachedTokens: number;
  /** Of the worker with the most. */
  readonly bestCachedTokens: number;
  /** Cached blocks that another worker has more than the chosen one. */
  readonly blocksLost: number;
  readonly sharedBeyondBlocks: number;
  readonly matchMs: number;
  readonly schedulingMs: number;
}

/** The router's metrics for one pool of workers. Called in the path of requests: series are looked up once. */
export interface RouterPoolMetrics {
  /** A request asked for a worker. */
  received(policyClass: string): void;
  /** It got none, because of the queue. */
  backpressure(policyClass: string, reason: string): void;
  /** What waits in a class now. */
  pending(policyClass: string, requests: number, promptTokens: number, cachedTokens: number): void;
  decided(figures: DecisionFigures): void;
  /** Worker's own count of the prompt tokens it had cached. */
  reused(tokens: number): void;
  indexBlocks(blocks: number): void;
  /** Memory taken for them. */
  indexBytes(bytes: number): void;
  /** What may be taken at most, as long as the other indexes of the process take what they do. */
  indexBytesAllowed(bytes: number): void;
  indexEvicted(blocks: number): void;
}

/** What the router's part of a frontend counts. Nothing here throws or waits. */
export interface RouterMetrics {
  /** Value of the label `router_id`. */
  readonly routerId: string;
  pool(model: string, workerType: RouterWorkerType, phase: RouterPhase): RouterPoolMetrics;
  hashed(ms: number): void;
  firstToken(ms: number): void;
  /** `tokens` came `gapMs` after those before. */
  tokens(gapMs: number, tokens: number): void;
  ended(outputTokens: number): void;
  /** From the end of a remote prefill to the first token of the decode worker. */
  transferred(ms: number): void;
  /** A rank can be routed to, or no longer. `workerId` is hex. */
  registered(workerId: string, dpRank: number, workerType: RouterWorkerType): void;
  unregistered(workerId: string): void;
  applied(eventType: KvEventType, status: string): void;
  /** Blocks stored where they were held already, since the start. */
  duplicates(total: number): void;
  skipped(reason: string): void;
  stale(): void;
  dropped(): void;
  recovered(kind: 'restore' | 'gap', outcome: 'ok' | 'failed'): void;
  /** Another router booked a request that is not remembered, as too many are. */
  peerBookingUnremembered(): void;
  /** Requests at the workers that neither this router nor one that it hears of has sent. */
  unattributedRequests(requests: number): void;
}

export type KvEventType = 'stored' | 'removed' | 'cleared';

export interface RouterMetricsOptions {
  readonly registry: MetricRegistry;
  readonly namespace: string;
  /** Hex. */
  readonly routerId: string;
  /** Whether requests are routed by KV cache; the index's series exist only then. */
  readonly isKvMode: boolean;
  readonly buckets?: BucketOverrides;
  readonly logger?: Logger;
}

const COMPONENT = 'router';
const EVENT_TYPES: readonly KvEventType[] = ['stored', 'removed', 'cleared'];
const STATUSES = [
  'ok',
  'parent_block_not_found',
  'block_not_found',
  'invalid_block',
  'capacity_exhausted',
  'unsupported_residency_domain',
];

/** Makes the router's metrics. Those of requests are there at zero in every mode and count in mode `kv` alone. */
export function createRouterMetrics(options: RouterMetricsOptions): RouterMetrics {
  const { registry, namespace, routerId, isKvMode, buckets = {}, logger = silentLogger } = options;
  const families = defineRouterFamilies(registry, { buckets, logger });
  const own = [namespace, COMPONENT, routerId, routerId];
  const index = [namespace, COMPONENT, routerId];
  const requests = requestSeries(families, own, routerId);
  const applied = new Map<string, Counter>();
  if (isKvMode) {
    for (const type of EVENT_TYPES) {
      for (const status of STATUSES) applied.set(`${type} ${status}`, families.applied.with(...index, type, status));
    }
    families.warnings.with(...index, 'duplicate_store');
  }
  return {
    routerId,
    pool: (model, workerType, phase) => poolMetrics(families, requests, own, { model, workerType, phase }),
    hashed: (ms) => requests.hashed(ms),
    firstToken: (ms) => requests.ttft.observe(ms / 1000),
    tokens: (gapMs, tokens) => requests.itl.observe(gapMs / 1000 / tokens, tokens),
    transferred: (ms) => requests.transfer.observe(ms / 1000),
    ended(outputTokens) {
      requests.ended.add();
      if (outputTokens > 0) requests.outputTokens.observe(outputTokens);
    },
    registered: (workerId, dpRank, workerType) =>
      families.registered.with(namespace, COMPONENT, routerId, workerId, `${dpRank}`, workerType).set(1),
    unregistered: (workerId) => families.registered.removeWhere('router_worker_id', workerId),
    applied: (type, status) => applied.get(`${type} ${status}`)?.add(),
    duplicates(total) {
      families.warnings.with(...index, 'duplicate_store').value = total;
    },
    skipped: (reason) => families.skippedEvents.with(reason).add(),
    stale: () => families.staleEvents.with().add(),
    dropped: () => families.droppedEvents.with().add(),
    recovered: (kind, outcome) => families.recoveries.with(kind, outcome).add(),
    peerBookingUnremembered: () => families.forgottenBookings.with().add(),
    unattributedRequests: (requests) => families.unattributed.with().set(requests),
  };
}

type RequestSeries = ReturnType<typeof requestSeries>;

function requestSeries(families: RouterFamilies, own: readonly string[], routerId: string) {
  const blockHashing = families.blockHashing.with(routerId);
  const seqHashing = families.seqHashing.with(routerId);
  const findMatches = families.findMatches.with(routerId);
  const scheduling = families.scheduling.with(routerId);
  const total = families.total.with(routerId);
  families.sharedQuery.with(routerId);
  families.sharedErrors.with(routerId);
  families.sharedHitRate.with(...own);
  let hashedMs = 0; // of the request that is being decided: hashing and decision happen in one turn
  return {
    transfer: families.transfer.with(...own),
    started: families.started.with(...own),
    ended: families.ended.with(...own),
    ttft: families.ttft.with(...own),
    itl: families.itl.with(...own),
    outputTokens: families.outputTokens.with(...own),
    hitRate: families.hitRate.with(...own),
    sharedBeyond: families.sharedBeyond.with(...own),
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

function poolMetrics(
  families: RouterFamilies,
  requests: RequestSeries,
  own: readonly string[],
  { model, workerType, phase }: { model: string; workerType: RouterWorkerType; phase: RouterPhase },
): RouterPoolMetrics {
  const byModel = [...own, model, phase];
  const byType = [...own, workerType];
  const inputTokens = families.inputTokens.with(...byModel);
  const bestCached = families.bestCached.with(...byModel);
  const selectedCached = families.selectedCached.with(...byModel);
  const reused = families.reused.with(...byModel);
  const nonMax = families.nonMaxSelections.with(...byType);
  const lost = families.overlapLost.with(...byType);
  const queue = (policyClass: string): string[] => [model, workerType, policyClass];
  const pending = new Map<string, ReturnType<typeof pendingSeries>>(); // bounded by the classes
  let lastClass: string | undefined; // nearly always the same, and once a request
  let received: Counter | undefined;
  return {
    received(policyClass) {
      if (policyClass !== lastClass) received = families.admissionReceived.with(...queue(policyClass));
      lastClass = policyClass;
      received?.add();
    },
    backpressure(policyClass, reason) {
      families.backpressure.with(...queue(policyClass), reason).add();
      families.admissionRejected.with(...queue(policyClass), reason).add();
    },
    pending(policyClass, count, promptTokens, cachedTokens) {
      let series = pending.get(policyClass);
      if (series === undefined) {
        series = pendingSeries(families, queue(policyClass));
        pending.set(policyClass, series);
      }
      series.requests.set(count);
      series.promptTokens.set(promptTokens);
      series.cachedTokens.set(cachedTokens);
    },
    decided(figures) {
      const { promptTokens, cachedTokens, blocksLost } = figures;
      requests.started.add();
      requests.decided(figures.matchMs, figures.schedulingMs);
      requests.hitRate.observe(promptTokens === 0 ? 0 : Math.min(1, cachedTokens / promptTokens));
      requests.sharedBeyond.observe(figures.sharedBeyondBlocks);
      inputTokens.observe(promptTokens);
      bestCached.add(figures.bestCachedTokens);
      selectedCached.add(cachedTokens);
      if (blocksLost <= 0) return;
      nonMax.add();
      lost.observe(blocksLost);
    },
    reused: (tokens) => reused.add(tokens),
    indexBlocks: (blocks) => families.indexBlocks.with(model).set(blocks),
    indexBytes: (bytes) => families.indexBytes.with(model).set(bytes),
    indexBytesAllowed: (bytes) => families.indexBytesAllowed.with(model).set(bytes),
    indexEvicted: (blocks) => families.evictedBlocks.with(model).add(blocks),
  };
}

function pendingSeries(families: RouterFamilies, labels: readonly string[]) {
  return {
    requests: families.pendingRequests.with(...labels),
    promptTokens: families.pendingIslTokens.with(...labels),
    cachedTokens: families.pendingCachedTokens.with(...labels),
  };
}
