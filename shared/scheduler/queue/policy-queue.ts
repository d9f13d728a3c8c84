import type { RoutingFailure } from '../../router/index.ts';
import type { SchedulingRequest } from '../types.ts';
import { ClassQueue, type HeadOf, type Waiting } from './class-queue.ts';
import type { PolicyProfile } from './policy-config.ts';

/**
 * Requests that wait for a worker, by class. Classes share service by deficit round robin: each round gives a class its
 * quantum of uncached tokens, and a request leaves when its class has saved as many tokens as the request costs. Only
 * classes whose first request could leave now take part, so that no worker idles because of a share.
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

  get cachedTokens(): number {
    return this.#classes.reduce((sum, { totals }) => sum + totals.cachedTokens, 0);
  }

  get promptTokens(): number {
    return this.#promptTokens;
  }

  /**
   * Returns the queue of the class that a request names. Otherwise returns the queue of its family's class for the
   * prompt tokens that no worker has cached.
   */
  lineFor(asked: string | undefined, uncachedTokens: () => number): ClassQueue {
    return this.#classes[this.#profile.classOf(asked, uncachedTokens)] as ClassQueue;
  }

  /** Whether requests wait, but none in the lane where this one would, in any class. */
  waitsElsewhere(request: SchedulingRequest): boolean {
    return this.#requests > 0 && !this.#classes.some((line) => line.hasLineFor(request));
  }

  *entries(): IterableIterator<Waiting> {
    for (const { lanes } of this.#classes) for (const lane of lanes) yield* lane;
  }

  /**
   * Returns why one more request may not wait. Limits compare the requests that already wait, so the request that
   * crosses a limit is accepted.
   * @param workers number of workers in the pool; limits are for each of them
   */
  refusal({ policyClass, totals }: ClassQueue, uncachedTokens: number, workers: number): RoutingFailure | undefined {
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
    waiting.line.add(waiting);
    this.#requests++;
    this.#promptTokens += waiting.weighed.request.promptTokens;
  }

  /** Returns false if the request no longer waits. */
  remove(waiting: Waiting): boolean {
    if (!waiting.line.remove(waiting)) return false;
    this.#requests--;
    this.#promptTokens -= waiting.weighed.request.promptTokens;
    return true;
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

  /**
   * Removes and returns the request whose turn it is, of those that could leave; undefined if none could.
   * @param headOf as for `ClassQueue.first`
   */
  next(canGo: (head: Waiting) => boolean, headOf?: HeadOf): Waiting | undefined {
    if (this.#requests === 0) return undefined;
    const heads = this.#classes.map((line) => line.first(canGo, headOf));
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
      // The class continues while it has credit. If its next request cannot leave, another class has its turn.
      this.#turn = line.creditTokens > 0 ? at : (at + 1) % count;
      return head;
    }
    return undefined;
  }

  /** Grants as many whole rounds at once as it takes until some class has credit for the request that it would send. */
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
