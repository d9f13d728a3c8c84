import type { RoutingFailure } from '../../router.ts';
import type { PendingTotals, SchedulingRequest } from '../types.ts';
import type { PolicyClass, PolicyProfile } from './policy-config.ts';
import { precedes, type Waiting, WaitingHeap } from './waiting-heap.ts';

/** The line of the requests that any worker may take. */
const ANYWHERE = '';

/**
 * Lines of one class for requests that only some workers may take, pins aside: each is looked at whenever something may have
 * changed. Requests beyond them share one more line, and there wait for each other.
 */
const FILTERED_LANES_MAX = 64;
const CROWDED = 'crowded';

/**
 * Waiting requests of one class: one line for those that any worker may take, one for each rank that requests are pinned to,
 * and one for each set of workers that requests are limited to, so that a full worker holds up only its own.
 */
class ClassQueue {
  readonly policyClass: PolicyClass;
  readonly #lanes = new Map<string, WaitingHeap>(); // none is empty
  #filteredLanes = 0;
  /** Uncached tokens that the class may still send before another one's turn. */
  creditTokens = 0;
  #requests = 0;
  #promptTokens = 0;
  #cachedTokens = 0;

  constructor(policyClass: PolicyClass) {
    this.policyClass = policyClass;
  }

  get totals(): PendingTotals {
    return { requests: this.#requests, promptTokens: this.#promptTokens, cachedTokens: this.#cachedTokens };
  }

  /** Whether others wait where the request would. */
  hasLineFor(request: SchedulingRequest): boolean {
    return this.#lanes.has(this.#laneOf(request));
  }

  get lanes(): IterableIterator<WaitingHeap> {
    return this.#lanes.values();
  }

  /** The most urgent of the first ones in line that could go now. */
  first(canGo: (first: Waiting) => boolean): Waiting | undefined {
    let best: Waiting | undefined;
    for (const { top } of this.#lanes.values()) {
      if (top === undefined || (best !== undefined && precedes(best, top)) || !canGo(top)) continue;
      best = top;
    }
    return best;
  }

  add(waiting: Waiting): void {
    const { request } = waiting.weighed;
    const name = this.#laneOf(request);
    waiting.lane = name;
    let lane = this.#lanes.get(name);
    if (lane === undefined) {
      lane = new WaitingHeap();
      this.#lanes.set(name, lane);
      if (isFiltered(request, name)) this.#filteredLanes++;
    }
    lane.add(waiting);
    this.#count(waiting, 1);
  }

  moved(waiting: Waiting): void {
    this.#lanes.get(waiting.lane)?.moved(waiting);
  }

  /** False when it does not wait any more. */
  remove(waiting: Waiting): boolean {
    const lane = this.#lanes.get(waiting.lane);
    if (lane?.remove(waiting) !== true) return false;
    if (lane.size === 0) {
      this.#lanes.delete(waiting.lane);
      if (isFiltered(waiting.weighed.request, waiting.lane)) this.#filteredLanes--;
    }
    this.#count(waiting, -1);
    if (this.#requests === 0) this.creditTokens = 0;
    return true;
  }

  /** Requests that go before it in its line. */
  before(waiting: Waiting): number {
    return this.#lanes.get(waiting.lane)?.before(waiting) ?? 0;
  }

  #laneOf(request: SchedulingRequest): string {
    const name = laneName(request);
    const hasRoom = this.#filteredLanes < FILTERED_LANES_MAX || this.#lanes.has(name);
    return hasRoom || !isFiltered(request, name) ? name : CROWDED;
  }

  #count({ weighed, cachedTokens }: Waiting, sign: 1 | -1): void {
    this.#requests += sign;
    this.#promptTokens += sign * weighed.request.promptTokens;
    this.#cachedTokens += sign * cachedTokens;
  }
}

/** Whether a line of this name is one of those that are limited in number. */
function isFiltered({ pinned }: SchedulingRequest, lane: string): boolean {
  return pinned === undefined && lane !== ANYWHERE && lane !== CROWDED;
}

/**
 * Requests that wait for a worker, by class. Classes share service by deficit round robin: each round gives a class its
 * quantum of uncached tokens, and a request leaves when its class has saved up what it costs. Only classes whose first
 * request could go now take part, so that no worker idles for the sake of a share.
 */
export class PolicyQueue {
  readonly #profile: PolicyProfile;
  readonly #classes: readonly ClassQueue[];
  readonly #requestsMax: number;
  #turn = 0; // class whose turn it is
  #requests = 0;
  #promptTokens = 0;

  constructor(profile: PolicyProfile, requestsMax: number) {
    this.#profile = profile;
    this.#classes = profile.classes.map((policyClass) => new ClassQueue(policyClass));
    this.#requestsMax = requestsMax;
  }

  get requests(): number {
    return this.#requests;
  }

  get promptTokens(): number {
    return this.#promptTokens;
  }

  classOf(asked: string | undefined, uncachedTokens: () => number): number {
    return this.#profile.classOf(asked, uncachedTokens);
  }

  classAt(at: number): PolicyClass {
    return (this.#classes[at] as ClassQueue).policyClass;
  }

  /** Whether others of the class wait where the request would. */
  hasLineFor(at: number, request: SchedulingRequest): boolean {
    return (this.#classes[at] as ClassQueue).hasLineFor(request);
  }

  /** Whether requests wait, but none where this one would, whatever its class. */
  waitsElsewhere(request: SchedulingRequest): boolean {
    return this.#requests > 0 && !this.#classes.some((line) => line.hasLineFor(request));
  }

  totalsOf(at: number): PendingTotals {
    return (this.#classes[at] as ClassQueue).totals;
  }

  *entries(): IterableIterator<Waiting> {
    for (const { lanes } of this.#classes) for (const lane of lanes) yield* lane;
  }

  /**
   * Why one more request may not wait: limits look at what waits already, so the request that crosses one is let in.
   * @param workers workers in the pool; limits are for each of them
   */
  refusal(classAt: number, uncachedTokens: number, workers: number): RoutingFailure | undefined {
    const { policyClass, totals } = this.#classes[classAt] as ClassQueue;
    const { requestsPerWorkerMax, promptTokensPerWorkerMax, cachedTokensPerWorkerMax } = policyClass;
    const missing = this.#profile.missingIslLimits.findLast((row) => row.missingTokensFloor <= uncachedTokens);
    const checks = [
      ['request_limit', totals.requests, requestsPerWorkerMax],
      ['raw_isl_token_limit', totals.promptTokens, promptTokensPerWorkerMax],
      ['cached_token_limit', totals.cachedTokens, cachedTokensPerWorkerMax],
      ['raw_isl_token_limit', this.#promptTokens, missing?.tokensPerWorkerMax],
    ] as const;
    const rejected = { kind: 'QueueRejected', policyClass: policyClass.name } as const;
    for (const [limit, current, perWorker] of checks) {
      if (perWorker === undefined || current < perWorker * workers) continue;
      return { ...rejected, limit, current, max: perWorker * workers };
    }
    if (this.#requests < this.#requestsMax) return undefined;
    return { ...rejected, limit: 'request_limit', current: this.#requests, max: this.#requestsMax };
  }

  add(waiting: Waiting): void {
    (this.#classes[waiting.classAt] as ClassQueue).add(waiting);
    this.#requests++;
    this.#promptTokens += waiting.weighed.request.promptTokens;
  }

  /** False when it does not wait any more. */
  remove(waiting: Waiting): boolean {
    if (!(this.#classes[waiting.classAt] as ClassQueue).remove(waiting)) return false;
    this.#requests--;
    this.#promptTokens -= waiting.weighed.request.promptTokens;
    return true;
  }

  /** Puts a request whose key has changed in its place. */
  moved(waiting: Waiting): void {
    (this.#classes[waiting.classAt] as ClassQueue).moved(waiting);
  }

  /** Gives every request a new key. */
  rekey(keyOf: (waiting: Waiting) => number): void {
    for (const { lanes } of this.#classes) {
      for (const lane of lanes) {
        for (const waiting of lane) waiting.key = keyOf(waiting);
        lane.reorder();
      }
    }
  }

  before(waiting: Waiting): number {
    return (this.#classes[waiting.classAt] as ClassQueue).before(waiting);
  }

  /** Takes out the request whose turn it is among those that could go; undefined when none could. */
  next(canGo: (first: Waiting) => boolean): Waiting | undefined {
    if (this.#requests === 0) return undefined;
    const heads = this.#classes.map((line) => line.first(canGo));
    if (!heads.some((head) => head !== undefined)) return undefined;
    this.#grantCredit(heads);
    const count = this.#classes.length;
    for (let step = 0; step < count; step++) {
      const at = (this.#turn + step) % count;
      const line = this.#classes[at] as ClassQueue;
      const head = heads[at];
      if (head === undefined || head.costTokens > line.creditTokens) continue;
      line.creditTokens -= head.costTokens;
      this.remove(head);
      // The class goes on while it can pay; what follows may not be able to go, and then another class has its turn.
      this.#turn = line.creditTokens > 0 ? at : (at + 1) % count;
      return head;
    }
    return undefined;
  }

  /** As many whole rounds at once as it takes until some class can pay for the request it would send. */
  #grantCredit(heads: readonly (Waiting | undefined)[]): void {
    let rounds = Number.POSITIVE_INFINITY;
    for (const [at, { creditTokens, policyClass }] of this.#classes.entries()) {
      const head = heads[at];
      if (head === undefined) continue;
      rounds = Math.min(rounds, Math.ceil((head.costTokens - creditTokens) / policyClass.quantumTokens));
    }
    if (rounds <= 0) return;
    for (const [at, line] of this.#classes.entries()) {
      if (heads[at] !== undefined) line.creditTokens += rounds * line.policyClass.quantumTokens;
    }
  }
}

/**
 * Names the line of a request among those that wait: requests that the same ranks may take stand in one. Sets of ids are
 * told apart by a checksum: where two have the same, which is one case in 2^32, their requests wait for each other.
 */
function laneName(request: SchedulingRequest): string {
  const { pinned, constraints, allowedWorkers, excludedWorkers, busyWorkers, avoidedWorkers } = request;
  if (pinned !== undefined) return `${pinned.workerId} ${pinned.dpRank ?? ''}`;
  const taints = constraints?.required_taints ?? [];
  const allowed = allowedWorkers === undefined ? '' : `only ${sumOf(allowedWorkers)}`;
  const passedOver = [excludedWorkers, busyWorkers, avoidedWorkers].map(sumOf);
  if (taints.length === 0 && allowed === '' && passedOver.every((sum) => sum === '')) return ANYWHERE;
  return JSON.stringify([[...new Set(taints)].sort(), allowed, passedOver]);
}

/** A checksum of a set of ids, whatever their order; empty for no ids. */
function sumOf(ids: ReadonlySet<string> | undefined): string {
  if (ids === undefined) return '';
  let sum = 0;
  for (const id of ids) sum = (sum + hashOf(id)) >>> 0;
  return ids.size === 0 ? '' : `${ids.size}:${sum}`;
}

/** FNV-1a of the text, mixed so that sums of similar ids differ. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad);
  return (hash ^ (hash >>> 15)) >>> 0;
}
