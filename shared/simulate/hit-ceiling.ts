import type { Workload } from './workload.ts';

/**
 * Returns the share of prompt tokens that one cache of `capacityBlocks` would have held if all requests had gone to it
 * in their order. No router over caches of that total size can exceed it for long. Answers take room too. The least
 * recently used segments leave first, the tail of a prompt before its head. At least one token of each prompt is
 * computed.
 */
export function hitCeiling(workload: Workload, capacityBlocks: number, blockSizeTokens: number): number {
  const { segmentTokens, segmentIds, segmentsFrom } = workload;
  const cache = new SegmentCache(workload, capacityBlocks);
  let hitTokens = 0;
  let promptTokens = 0;
  for (let request = 0; request < workload.size; request++) {
    const inputTokens = workload.inputTokens[request]!;
    const from = segmentsFrom[request]!;
    const to = segmentsFrom[request + 1]!;
    let at = from;
    while (at < to && cache.has(segmentIds[at]!)) at++;
    const wholeBlocksTokens = Math.floor((inputTokens - 1) / blockSizeTokens) * blockSizeTokens;
    hitTokens += Math.min((at - from) * segmentTokens, wholeBlocksTokens);
    promptTokens += inputTokens;
    const answeredBlocks = Math.floor((inputTokens + workload.outputTokens[request]!) / blockSizeTokens);
    cache.touch(cache.answerOf(request), answeredBlocks - Math.floor(inputTokens / blockSizeTokens));
    for (at = to - 1; at >= from; at--) {
      const tokens = Math.min(segmentTokens, inputTokens - (at - from) * segmentTokens);
      cache.touch(segmentIds[at]!, Math.floor(tokens / blockSizeTokens));
    }
  }
  return promptTokens === 0 ? 0 : hitTokens / promptTokens;
}

/**
 * Segments in the order of their last use: a linked list over the dense ids of the workload, and one more per request.
 */
class SegmentCache {
  readonly #capacityBlocks: number;
  readonly #newer: Int32Array;
  readonly #older: Int32Array;
  /** Whole blocks of each held segment. */
  readonly #blocks: Uint32Array;
  readonly #prompts: number;
  readonly #end: number; // stands before the oldest and after the newest
  #usedBlocks = 0;

  constructor(workload: Workload, capacityBlocks: number) {
    let ids = 0;
    for (const id of workload.segmentIds) ids = Math.max(ids, id + 1);
    this.#capacityBlocks = capacityBlocks;
    this.#prompts = ids;
    this.#end = ids + workload.size;
    this.#newer = new Int32Array(this.#end + 1).fill(this.#end);
    this.#older = new Int32Array(this.#end + 1).fill(this.#end);
    this.#blocks = new Uint32Array(this.#end);
  }

  /** The segment that the answer to `request` fills. */
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
