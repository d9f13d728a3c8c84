import type { PendingTotals } from '../router-observer.ts';
import type { RoutingFailure } from '../routing-error.ts';
import type { PolicyClass, PolicyProfile } from './policy-config.ts';
import type { Waiting } from './waiting.ts';
import { WaitingHeap } from './waiting-heap.ts';

/** Waiting requests of one class. */
class ClassQueue {
  readonly policyClass: PolicyClass;
  readonly heap = new WaitingHeap();
  /** Uncached tokens that the class may still send before another one's turn. */
  creditTokens = 0;
  promptTokens = 0;
  cachedTokens = 0;

  constructor(policyClass: PolicyClass) {
    this.policyClass = policyClass;
  }

  get totals(): PendingTotals {
    return { requests: this.heap.size, promptTokens: this.promptTokens, cachedTokens: this.cachedTokens };
  }

  /** Adds (1) or takes away (-1) what a request counts. */
  count({ weighed, cachedTokens }: Waiting, sign: 1 | -1): void {
    this.promptTokens += sign * weighed.request.promptTokens;
    this.cachedTokens += sign * cachedTokens;
  }
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

  totalsOf(at: number): PendingTotals {
    return (this.#classes[at] as ClassQueue).totals;
  }

  *entries(): IterableIterator<Waiting> {
    for (const { heap } of this.#classes) yield* heap;
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
    const line = this.#classes[waiting.classAt] as ClassQueue;
    line.heap.add(waiting);
    line.count(waiting, 1);
    this.#requests++;
    this.#promptTokens += waiting.weighed.request.promptTokens;
  }

  /** False when it does not wait any more. */
  remove(waiting: Waiting): boolean {
    const line = this.#classes[waiting.classAt] as ClassQueue;
    if (!line.heap.remove(waiting)) return false;
    line.count(waiting, -1);
    if (line.heap.size === 0) line.creditTokens = 0;
    this.#requests--;
    this.#promptTokens -= waiting.weighed.request.promptTokens;
    return true;
  }

  /** Gives every request a new key. */
  rekey(keyOf: (waiting: Waiting) => number): void {
    for (const { heap } of this.#classes) {
      for (const waiting of heap) waiting.key = keyOf(waiting);
      heap.reorder();
    }
  }

  before(waiting: Waiting): number {
    return (this.#classes[waiting.classAt] as ClassQueue).heap.before(waiting);
  }

  /** Takes out the request whose turn it is among those that could go; undefined when none could. */
  next(canGo: (first: Waiting) => boolean): Waiting | undefined {
    if (this.#requests === 0) return undefined;
    const ready = this.#classes.map(({ heap }) => heap.top !== undefined && canGo(heap.top));
    if (!ready.includes(true)) return undefined;
    this.#grantCredit(ready);
    const count = this.#classes.length;
    for (let step = 0; step < count; step++) {
      const at = (this.#turn + step) % count;
      const line = this.#classes[at] as ClassQueue;
      const first = line.heap.top;
      if (!ready[at] || first === undefined || first.costTokens > line.creditTokens) continue;
      line.creditTokens -= first.costTokens;
      this.remove(first);
      const following = line.heap.top;
      const goesOn = following !== undefined && following.costTokens <= line.creditTokens;
      this.#turn = goesOn ? at : (at + 1) % count;
      return first;
    }
    return undefined;
  }

  /** As many whole rounds at once as it takes until some ready class can pay for its first request. */
  #grantCredit(ready: readonly boolean[]): void {
    let rounds = Number.POSITIVE_INFINITY;
    for (const [at, { heap, creditTokens, policyClass }] of this.#classes.entries()) {
      if (!ready[at] || heap.top === undefined) continue;
      rounds = Math.min(rounds, Math.ceil((heap.top.costTokens - creditTokens) / policyClass.quantumTokens));
    }
    if (rounds <= 0) return;
    for (const [at, line] of this.#classes.entries()) {
      if (ready[at]) line.creditTokens += rounds * line.policyClass.quantumTokens;
    }
  }
}
