import type { FoundOverlaps } from '../../block-index/index.ts';
import { fnv1a } from '../../records/index.ts';
import type { WeighedRequest } from '../chooser.ts';
import type { PendingTotals, SchedulingOutcome, SchedulingRequest } from '../types.ts';
import type { PolicyClass } from './policy-config.ts';

/** A request that waits for a worker. */
export interface Waiting {
  readonly weighed: WeighedRequest;
  readonly outcome: SchedulingOutcome;
  readonly arrivedMs: number;
  /** Number of the arrival. Of two equally urgent requests, the earlier one leaves first. */
  readonly order: number;
  /** Urgency: the larger leaves first; see `queueKey`. */
  key: number;
  /** Most prompt tokens that any eligible worker had cached at its arrival. */
  readonly cachedTokens: number;
  /** Rest of the prompt, at least one token: the cost to its class. */
  readonly costTokens: number;
  /** Queue of its class. */
  readonly line: ClassQueue;
  /** Overlaps that the index returned at the last look-up. */
  found: FoundOverlaps;
  foundMs: number;
  /** Prompt tokens left to compute at the best worker, according to `found`. */
  uncachedTokens: number;
  /** Name of the lane that it stands in, set by the queue. */
  lane: string;
  /** Position in its heap; -1 once it left. */
  heapAt: number;
}

/** Waiting requests with the most urgent at the top: a binary heap from which any entry can be removed. */
class WaitingHeap implements Iterable<Waiting> {
  readonly #entries: Waiting[] = [];

  get size(): number {
    return this.#entries.length;
  }

  get top(): Waiting | undefined {
    return this.#entries[0];
  }

  [Symbol.iterator](): Iterator<Waiting> {
    return this.#entries[Symbol.iterator]();
  }

  add(waiting: Waiting): void {
    this.#entries.push(waiting);
    this.#rise(waiting, this.#entries.length - 1);
  }

  /** Returns false if the entry is no longer in the heap. */
  remove(waiting: Waiting): boolean {
    const at = waiting.heapAt;
    if (at === -1) return false;
    const last = this.#entries.pop() as Waiting;
    if (last !== waiting) {
      this.#rise(last, at);
      this.#sink(last, last.heapAt);
    }
    waiting.heapAt = -1;
    return true;
  }

  /** Moves an entry whose key has changed to its new place. */
  moved(waiting: Waiting): void {
    this.#rise(waiting, waiting.heapAt);
    this.#sink(waiting, waiting.heapAt);
  }

  /** Restores the order after keys have changed. */
  reorder(): void {
    for (let at = (this.#entries.length >> 1) - 1; at >= 0; at--) this.#sink(this.#entries[at] as Waiting, at);
  }

  /** Counts the entries that leave before `waiting`, in time proportional to the number of entries. */
  before(waiting: Waiting): number {
    let count = 0;
    for (const entry of this.#entries) if (entry !== waiting && precedes(entry, waiting)) count++;
    return count;
  }

  #rise(waiting: Waiting, from: number): void {
    let at = from;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = this.#entries[parentAt] as Waiting;
      if (!precedes(waiting, parent)) break;
      this.#put(parent, at);
      at = parentAt;
    }
    this.#put(waiting, at);
  }

  #sink(waiting: Waiting, from: number): void {
    let at = from;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= this.#entries.length) break;
      const right = left + 1;
      const isRight =
        right < this.#entries.length && precedes(this.#entries[right] as Waiting, this.#entries[left] as Waiting);
      const childAt = isRight ? right : left;
      const child = this.#entries[childAt] as Waiting;
      if (!precedes(child, waiting)) break;
      this.#put(child, at);
      at = childAt;
    }
    this.#put(waiting, at);
  }

  #put(waiting: Waiting, at: number): void {
    this.#entries[at] = waiting;
    waiting.heapAt = at;
  }
}

/** Whether `a` leaves before `b`: the tier decides first, then the key, then the order of arrival. */
function precedes(a: Waiting, b: Waiting): boolean {
  const tierA = a.weighed.request.strictPriority ?? 0;
  const tierB = b.weighed.request.strictPriority ?? 0;
  if (tierA !== tierB) return tierA > tierB;
  return a.key === b.key ? a.order < b.order : a.key > b.key;
}

/** Chooses the request of a lane that should leave next, given the most urgent one and the lane. */
export type HeadOf = (top: Waiting, lane: Iterable<Waiting>) => Waiting;

function topOf(top: Waiting): Waiting {
  return top;
}

/** Name of the lane for requests that any worker may take. */
const ANYWHERE = '';

/**
 * Bound of the lanes of one class for requests that only some workers may take, apart from pins. The router checks each
 * lane whenever something may have changed. Further requests share one more lane, in which they wait for each other.
 */
const FILTERED_LANES_MAX = 64;
const CROWDED = 'crowded';

/**
 * Waiting requests of one class. There is one lane for those that any worker may take, one for each rank that requests
 * are pinned to, and one for each set of workers that requests are limited to. So a full worker delays only its own
 * requests.
 */
export class ClassQueue {
  readonly policyClass: PolicyClass;
  readonly #lanes = new Map<string, WaitingHeap>(); // no lane is empty
  #filteredLanes = 0;
  /** Uncached tokens that the class may still send before the next class has its turn. */
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

  /** Whether other requests already wait in the lane of this request. */
  hasLineFor(request: SchedulingRequest): boolean {
    return this.#lanes.has(this.#laneOf(request));
  }

  get lanes(): IterableIterator<WaitingHeap> {
    return this.#lanes.values();
  }

  /**
   * Returns the most urgent of the requests at the head of a lane that can leave now.
   * @param headOf returns the request of a lane that should leave next. @default its most urgent one
   */
  first(canGo: (head: Waiting) => boolean, headOf: HeadOf = topOf): Waiting | undefined {
    let best: Waiting | undefined;
    for (const lane of this.#lanes.values()) {
      if (lane.top === undefined) continue;
      const head = lane.size === 1 ? lane.top : headOf(lane.top, lane);
      if ((best !== undefined && precedes(best, head)) || !canGo(head)) continue;
      best = head;
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

  /** Returns false if the request no longer waits. */
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

  /** Counts the requests that leave before it in its lane. */
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

/** Whether a lane of this name counts towards `FILTERED_LANES_MAX`. */
function isFiltered({ pinned }: SchedulingRequest, lane: string): boolean {
  return pinned === undefined && lane !== ANYWHERE && lane !== CROWDED;
}

/**
 * Returns the name of a request's lane. Requests that the same ranks may take stand in one lane. A checksum stands for
 * a set of ids. If two sets have the same checksum, a chance of 1 in 2^32, their requests wait for each other.
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

/** Returns a checksum of a set of ids that does not depend on their order; empty for no ids. */
function sumOf(ids: ReadonlySet<string> | undefined): string {
  if (ids === undefined) return '';
  let sum = 0;
  for (const id of ids) sum = (sum + hashOf(id)) >>> 0;
  return ids.size === 0 ? '' : `${ids.size}:${sum}`;
}

/** Returns a hash whose bits are mixed, so that sums of similar ids differ. */
function hashOf(text: string): number {
  const plain = fnv1a(text);
  const hash = Math.imul(plain ^ (plain >>> 16), 0x21f0aaad);
  return (hash ^ (hash >>> 15)) >>> 0;
}
