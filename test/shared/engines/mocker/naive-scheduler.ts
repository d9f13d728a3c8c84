import type { SchedulerOptions } from '../../../../shared/engines/index.ts';
import { decodeMs, prefillMs } from '../../../../shared/engines/mocker/timing.ts';

/** A request of the naive model: its tokens are numbers, and a block is named by all tokens up to its end. */
export interface NaiveRequest {
  readonly id: number;
  readonly prompt: readonly number[];
  readonly outputLength: number;
  tokens: number[];
  computed: number;
  blocks: (string | undefined)[]; // undefined = private
  isPrefilling: boolean;
  passTokens: number;
  cachedTokens: number;
  gaveWay: boolean;
}

export function naiveRequest(id: number, prompt: readonly number[], outputLength: number): NaiveRequest {
  const rest = { computed: 0, blocks: [], isPrefilling: false, passTokens: 0, cachedTokens: -1, gaveWay: false };
  return { id, prompt, outputLength, tokens: [...prompt], ...rest };
}

/** The mock engine's rules once more, with strings and lists and no care for speed. */
export class NaiveScheduler {
  waiting: NaiveRequest[] = [];
  running: NaiveRequest[] = [];
  cached: string[] = [];
  events: string[] = [];
  readonly #options: SchedulerOptions;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  get active(): number {
    const held = this.running.flatMap((request) => request.blocks);
    return new Set(held.filter((block) => block !== undefined)).size + held.filter((b) => b === undefined).length;
  }

  get available(): number {
    return this.#options.numGpuBlocks - this.active;
  }

  /** Requests that wait, with those that have run apart from those that have not. */
  get left() {
    const lengths = (gaveWay: boolean): readonly number[] =>
      this.waiting.filter((request) => request.gaveWay === gaveWay).map(({ tokens }) => tokens.length);
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    const [fresh, again] = [lengths(false), lengths(true)];
    return { requests: fresh.length, tokens: sum(fresh), preempted: again.length, preemptedTokens: sum(again) };
  }

  startPass(): number {
    const options = this.#options;
    let budget = options.maxNumBatchedTokens;
    let preempted = false;
    for (const request of [...this.running]) {
      if (!this.running.includes(request) || budget === 0) continue;
      const rest = request.tokens.length - request.computed;
      if (rest > budget && !options.enableChunkedPrefill) break;
      const want = Math.min(rest, budget);
      while (this.running.includes(request) && this.#missing(request, request.computed + want) > this.available) {
        const victim = options.preemptionMode === 'lifo' ? this.running.at(-1) : this.running[0];
        if (victim === undefined) break;
        preempted = true;
        budget += victim.passTokens;
        this.#preempt(victim);
      }
      if (!this.running.includes(request)) continue;
      this.#grant(request, request.computed, want);
      budget -= want;
    }
    while (!preempted && budget > 0 && this.running.length < options.maxNumSeqs) {
      const [head] = this.waiting;
      if (head === undefined) break;
      const hits = this.#hits(head);
      const rest = head.tokens.length - hits.length * options.blockSizeTokens;
      if (rest > budget && !options.enableChunkedPrefill) break;
      const inUse = hits.filter((name) => !this.cached.includes(name)).length;
      if (Math.ceil(head.tokens.length / options.blockSizeTokens) - inUse > this.available) break;
      this.waiting.shift();
      this.cached = this.cached.filter((name) => !hits.includes(name));
      head.blocks = [...hits];
      head.isPrefilling = true;
      if (head.cachedTokens < 0) head.cachedTokens = hits.length * options.blockSizeTokens;
      this.running.push(head);
      const want = Math.min(rest, budget);
      this.#grant(head, hits.length * options.blockSizeTokens, want);
      budget -= want;
    }
    return this.#duration();
  }

  /** Returns the ids of the requests that got a token. */
  finishPass(nextToken: (request: NaiveRequest) => number): number[] {
    const emitted: number[] = [];
    for (const request of [...this.running]) {
      if (request.passTokens > 0 && request.computed === request.tokens.length) {
        request.isPrefilling = false;
        request.tokens.push(nextToken(request));
        emitted.push(request.id);
        if (request.tokens.length - request.prompt.length >= request.outputLength) this.#free(request);
      }
      request.passTokens = 0;
    }
    return emitted;
  }

  cancel(id: number): void {
    this.waiting = this.waiting.filter((request) => request.id !== id);
    for (const request of [...this.running]) if (request.id === id) this.#free(request);
  }

  #name(request: NaiveRequest, index: number): string {
    return request.tokens.slice(0, (index + 1) * this.#options.blockSizeTokens).join();
  }

  #knows(name: string): boolean {
    return this.cached.includes(name) || this.running.some((request) => request.blocks.includes(name));
  }

  #hits(request: NaiveRequest): string[] {
    const hits: string[] = [];
    const most = Math.floor((request.tokens.length - 1) / this.#options.blockSizeTokens);
    while (this.#options.enablePrefixCaching && hits.length < most && this.#knows(this.#name(request, hits.length))) {
      hits.push(this.#name(request, hits.length));
    }
    return hits;
  }

  #missing(request: NaiveRequest, tokens: number): number {
    return Math.max(0, Math.ceil(tokens / this.#options.blockSizeTokens) - request.blocks.length);
  }

  #grant(request: NaiveRequest, before: number, want: number): void {
    for (let missing = this.#missing(request, before + want); missing > 0; missing--) {
      if (this.active + this.cached.length === this.#options.numGpuBlocks) {
        this.events.push(`removed ${this.cached.shift()}`);
      }
      request.blocks.push(undefined);
    }
    request.computed = before + want;
    request.passTokens = want;
    if (!this.#options.enablePrefixCaching) return;
    for (let index = 0; (index + 1) * this.#options.blockSizeTokens <= request.computed; index++) {
      if (request.blocks[index] !== undefined) continue;
      const name = this.#name(request, index);
      if (!this.#knows(name)) this.events.push(`stored ${name}`);
      this.cached = this.cached.filter((other) => other !== name);
      request.blocks[index] = name;
    }
  }

  #preempt(victim: NaiveRequest): void {
    this.#free(victim);
    victim.gaveWay = true;
    this.waiting.unshift(victim);
  }

  #free(request: NaiveRequest): void {
    this.running = this.running.filter((other) => other !== request);
    for (const name of request.blocks.reverse()) {
      if (name !== undefined && !this.#knows(name)) this.cached.push(name);
    }
    request.blocks = [];
    request.computed = 0;
    request.passTokens = 0;
  }

  #duration(): number {
    const scheduled = this.running.filter((request) => request.passTokens > 0);
    const prefills = scheduled.filter((request) => request.isPrefilling);
    const decodes = scheduled.filter((request) => !request.isPrefilling);
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    const k = prefills.length;
    const end = sum(prefills.map((r) => Math.min(r.prompt.length, r.computed)));
    const start = sum(prefills.map((r) => Math.min(r.prompt.length, r.computed - r.passTokens)));
    const prefill = k === 0 ? 0 : prefillMs(k * (Math.floor(end / k) - Math.floor(start / k)));
    const capacity = this.#options.numGpuBlocks * this.#options.blockSizeTokens;
    return prefill + (decodes.length === 0 ? 0 : decodeMs(sum(decodes.map((r) => r.tokens.length)) / capacity));
  }
}
