import type { Workload } from './workload.ts';

/**
 * Share of prompt tokens that one cache of `capacityBlocks` would have held, had all requests gone to it in their order: what
 * no router over caches of that size in all can exceed for long. Answers take room too. Least recently used stretches leave
 * first, the tail of a prompt before its head; at least one token of each prompt is computed.
 */
export function hitCeiling(workload: Workload, capacityBlocks: number, blockSizeTokens: number): number {
  const { stretchTokens, stretchIds, stretchesFrom } = workload;
  const cache = new StretchCache(workload, capacityBlocks);
  let hitTokens = 0;
  let promptTokens = 0;
  for (let request = 0; request < workload.size; request++) {
    const inputTokens = workload.inputTokens[request]!;
    const from = stretchesFrom[request]!;
    const to = stretchesFrom[request + 1]!;
    let at = from;
    while (at < to && cache.has(stretchIds[at]!)) at++;
    const wholeBlocksTokens = Math.floor((inputTokens - 1) / blockSizeTokens) * blockSizeTokens;
    hitTokens += Math.min((at - from) * stretchTokens, wholeBlocksTokens);
    promptTokens += inputTokens;
    const answeredBlocks = Math.floor((inputTokens + workload.outputTokens[request]!) / blockSizeTokens);
    cache.touch(cache.answerOf(request), answeredBlocks - Math.floor(inputTokens / blockSizeTokens));
    for (at = to - 1; at >= from; at--) {
      const tokens = Math.min(stretchTokens, inputTokens - (at - from) * stretchTokens);
      cache.touch(stretchIds[at]!, Math.floor(tokens / blockSizeTokens));
    }
  }
  return promptTokens === 0 ? 0 : hitTokens / promptTokens;
}

/** Stretches in the order of their last use: a linked list over the dense ids of the workload, and one more a request. */
class StretchCache {
  readonly #capacityBlocks: number;
  readonly #newer: Int32Array;
  readonly #older: Int32Array;
  /** Whole blocks of each held stretch. */
  readonly #blocks: Uint32Array;
  readonly #prompts: number;
  readonly #end: number; // stands before the oldest and after the newest
  #usedBlocks = 0;

  constructor(workload: Workload, capacityBlocks: number) {
    let ids = 0;
    for (const id of workload.stretchIds) ids = Math.max(ids, id + 1);
    this.#capacityBlocks = capacityBlocks;
    this.#prompts = ids;
    this.#end = ids + workload.size;
    this.#newer = new Int32Array(this.#end + 1).fill(this.#end);
    this.#older = new Int32Array(this.#end + 1).fill(this.#end);
    this.#blocks = new Uint32Array(this.#end);
  }

  /** The stretch that the answer to `request` fills. */
  answerOf(request: number): number {
    return this.#prompts + request;
  }

  has(id: number): boolean {
    return this.#blocks[id]! > 0;
  }

  touch(id: number, blocks: number): void {
    if (this.has(id)) this.#unlink(id);
    else if (blocks === 0) return;
    this.#usedBlocks += Math.max(0, blocks - this.#blocks[id]!);
    this.#blocks[id] = Math.max(blocks, this.#blocks[id]!);
    const last = this.#older[this.#end]!;
    this.#older[id] = last;
    this.#newer[id] = this.#end;
    this.#newer[last] = id;
    this.#older[this.#end] = id;
    while (this.#usedBlocks > this.#capacityBlocks) this.#dropOldest();
  }

  #dropOldest(): void {
    const oldest = this.#newer[this.#end]!;
    this.#unlink(oldest);
    this.#usedBlocks -= this.#blocks[oldest]!;
    this.#blocks[oldest] = 0;
  }

  #unlink(id: number): void {
    const older = this.#older[id]!;
    const newer = this.#newer[id]!;
    this.#newer[older] = newer;
    this.#older[newer] = older;
  }
}
