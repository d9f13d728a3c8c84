import type { Workload } from './workload.ts';

/** Prompt tokens of a workload, by whether several prompts have them. */
export class SharedTokens {
  /** Mean tokens of a prompt that no other prompt has. */
  readonly ownTokens: number;
  readonly #workload: Workload;
  /** Prompts that have each segment. */
  readonly #uses: Uint32Array;

  constructor(workload: Workload) {
    this.#workload = workload;
    let ids = 0;
    for (const id of workload.segmentIds) ids = Math.max(ids, id + 1);
    this.#uses = new Uint32Array(ids);
    for (const id of workload.segmentIds) this.#uses[id]!++;
    let own = 0;
    this.#each(workload.size, (id, tokens) => {
      if (this.#uses[id] === 1) own += tokens;
    });
    this.ownTokens = own / Math.max(1, workload.size);
  }

  /** Returns the shared tokens of the first `requests` prompts, each once. */
  distinctOf(requests: number): number {
    const seen = new Uint8Array(this.#uses.length);
    let distinct = 0;
    this.#each(Math.min(requests, this.#workload.size), (id, tokens) => {
      if (this.#uses[id] === 1 || seen[id] === 1) return;
      seen[id] = 1;
      distinct += tokens;
    });
    return distinct;
  }

  /** Calls `take` for each segment of the first `requests` prompts. */
  #each(requests: number, take: (id: number, tokens: number) => void): void {
    const { segmentIds, segmentsFrom, segmentTokens, inputTokens } = this.#workload;
    for (let request = 0; request < requests; request++) {
      const from = segmentsFrom[request]!;
      for (let at = from; at < segmentsFrom[request + 1]!; at++) {
        take(segmentIds[at]!, Math.min(segmentTokens, inputTokens[request]! - (at - from) * segmentTokens));
      }
    }
  }
}
