import type { BlockNames } from '../engines/index.ts';
import { type BlockHashes, chainHashes } from '../tokens/index.ts';

/**
 * Requests of a simulation as columns: request `i` has entry `i` of each. A prompt is named in segments of
 * `segmentTokens`. Two prompts with the same id at the same place are equal up to the end of that segment.
 */
export interface Workload {
  readonly size: number;
  readonly segmentTokens: number;
  /** Earliest arrival from the start. Does not fall, except where a turn of a session waits for another. */
  readonly arrivalMs: Float64Array;
  readonly inputTokens: Uint32Array;
  /** At least 1. */
  readonly outputTokens: Uint32Array;
  /** Segments of request `i`: `segmentIds[segmentsFrom[i]]` up to `segmentsFrom[i + 1]`, numbered densely from 0. */
  readonly segmentsFrom: Uint32Array;
  readonly segmentIds: Uint32Array;
  /** The request that waits for the end of this one, or -1. */
  readonly nextTurn: Int32Array;
  /** The request that this one waits for, or -1. */
  readonly previousTurn: Int32Array;
  /** Pause between the end of the turn before and this one. */
  readonly delayMs: Float64Array;
  /** Seconds that the request is ahead of its arrival in the router's queue. */
  readonly priorityJump: Float64Array;
  readonly strictPriority: Uint32Array;
  /** Number of the worker that the client named, or -1. */
  readonly worker: Int32Array;
}

/** One request while a workload is put together. */
export interface WorkloadRequest {
  readonly arrivalMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Any safe integers; one for every started segment of the prompt. */
  readonly segmentIds: readonly number[];
  readonly sessionId?: string | undefined;
  readonly delayMs?: number | undefined;
  readonly priorityJump?: number | undefined;
  readonly strictPriority?: number | undefined;
  readonly worker?: number | undefined;
}

/** Puts requests into columns. Ids are numbered densely in the order of their first use. */
export function toWorkload(requests: readonly WorkloadRequest[], segmentTokens: number): Workload {
  const size = requests.length;
  const segmentsFrom = new Uint32Array(size + 1);
  requests.forEach(({ segmentIds }, at) => {
    segmentsFrom[at + 1] = segmentsFrom[at]! + segmentIds.length;
  });
  return {
    size,
    segmentTokens,
    arrivalMs: Float64Array.from(requests, ({ arrivalMs }) => arrivalMs),
    inputTokens: Uint32Array.from(requests, ({ inputTokens }) => inputTokens),
    outputTokens: Uint32Array.from(requests, ({ outputTokens }) => outputTokens),
    segmentsFrom,
    segmentIds: numberIds(requests, segmentsFrom[size]!),
    ...linkTurns(requests),
    delayMs: Float64Array.from(requests, ({ delayMs = 0 }) => delayMs),
    priorityJump: Float64Array.from(requests, ({ priorityJump = 0 }) => priorityJump),
    strictPriority: Uint32Array.from(requests, ({ strictPriority = 0 }) => strictPriority),
    worker: Int32Array.from(requests, ({ worker = -1 }) => worker),
  };
}

function numberIds(requests: readonly WorkloadRequest[], count: number): Uint32Array {
  const numbers = new Map<number, number>(); // bounded by the ids of the workload
  const ids = new Uint32Array(count);
  let at = 0;
  for (const { segmentIds } of requests) {
    for (const id of segmentIds) {
      let number = numbers.get(id);
      if (number === undefined) {
        number = numbers.size;
        numbers.set(id, number);
      }
      ids[at++] = number;
    }
  }
  return ids;
}

function linkTurns(requests: readonly WorkloadRequest[]): Pick<Workload, 'nextTurn' | 'previousTurn'> {
  const nextTurn = new Int32Array(requests.length).fill(-1);
  const previousTurn = new Int32Array(requests.length).fill(-1);
  const latest = new Map<string, number>();
  requests.forEach(({ sessionId }, at) => {
    if (sessionId === undefined) return;
    const before = latest.get(sessionId);
    if (before !== undefined) {
      nextTurn[before] = at;
      previousTurn[at] = before;
    }
    latest.set(sessionId, at);
  });
  return { nextTurn, previousTurn };
}

/** Sets names of generated blocks apart from those of prompts. */
const GENERATED = 0x5bd1_e995;

/**
 * Names of the full blocks of one request, made from the ids of its prompt instead of from token ids. A segment of 512
 * tokens is one number of the trace: to hash the 145 million tokens of a trace would take longer than to simulate them.
 *
 *     segment ids      |       a       |       b       |  (512 tokens each)
 *     blocks of 128    |a.0|a.1|a.2|a.3|b.0|b.1|b.2|     own name = mix(id, place in the segment)
 *     whole prefixes     chained with the router's own hash, as in a live fleet
 *
 * Blocks that hold generated tokens are named after the request: no other request ever has them.
 */
export class WorkloadNames implements BlockNames {
  readonly hashes: Uint32Array;
  readonly tokensHashes: Uint32Array;
  /** Full blocks of the prompt. */
  readonly promptBlocks: number;
  readonly #request: number;
  #named: number;

  constructor(workload: Workload, request: number, blockSizeTokens: number) {
    const inputTokens = workload.inputTokens[request]!;
    this.promptBlocks = Math.floor(inputTokens / blockSizeTokens);
    const blocks = Math.floor((inputTokens + workload.outputTokens[request]!) / blockSizeTokens);
    this.tokensHashes = new Uint32Array(2 * blocks);
    this.hashes = new Uint32Array(2 * blocks);
    this.#request = request;
    this.#named = this.promptBlocks;
    this.#namePrompt(workload, workload.segmentTokens / blockSizeTokens);
  }

  /** Names that a router looks up: the complete blocks of the prompt. */
  get prompt(): BlockHashes {
    const end = 2 * this.promptBlocks;
    return { local: this.tokensHashes.subarray(0, end), sequence: this.hashes.subarray(0, end) };
  }

  ensure(count: number): void {
    for (; this.#named < count; this.#named++) {
      writeName(this.tokensHashes, this.#named, this.#request ^ GENERATED, this.#named);
      writeName(this.hashes, this.#named, this.#request ^ ~GENERATED, this.#named);
    }
  }

  #namePrompt(workload: Workload, blocksPerSegment: number): void {
    const from = workload.segmentsFrom[this.#request]!;
    let block = 0;
    for (let segment = from; block < this.promptBlocks; segment++) {
      const id = workload.segmentIds[segment]!;
      for (let part = 0; part < blocksPerSegment && block < this.promptBlocks; part++)
        writeName(this.tokensHashes, block++, id, part);
    }
    this.hashes.set(chainHashes(this.tokensHashes.subarray(0, 2 * this.promptBlocks)));
  }
}

/** Two 32-bit mixes of the same pair; each is a bijection of `part` for a given `id`. */
function writeName(pairs: Uint32Array, block: number, id: number, part: number): void {
  pairs[2 * block] = mix(Math.imul(id ^ 0x2545_f491, 0x9e37_79b1), part);
  pairs[2 * block + 1] = mix(Math.imul(id ^ 0x6c07_8965, 0x85eb_ca77), part);
}

function mix(seed: number, part: number): number {
  let mixed = seed ^ (seed >>> 15);
  mixed = Math.imul(mixed + part, 0x21f0_aaad);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x735a_2d97);
  return mixed ^ (mixed >>> 15);
}
