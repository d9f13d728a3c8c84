/**
 * The requests of a simulation as columns: request `i` has entry `i` of each. A prompt is named in stretches of
 * `stretchTokens`; two prompts with the same id at the same place are the same up to the end of that stretch.
 */
export interface Workload {
  readonly size: number;
  readonly stretchTokens: number;
  /** Earliest arrival from the start. Does not fall, except where a turn of a session waits for another. */
  readonly arrivalMs: Float64Array;
  readonly inputTokens: Uint32Array;
  /** At least 1. */
  readonly outputTokens: Uint32Array;
  /** Stretches of request `i`: `stretchIds[stretchesFrom[i]]` up to `stretchesFrom[i + 1]`, numbered densely from 0. */
  readonly stretchesFrom: Uint32Array;
  readonly stretchIds: Uint32Array;
  /** The request that waits for the end of this one, or -1. */
  readonly nextTurn: Int32Array;
  /** The request that this one waits for, or -1. */
  readonly previousTurn: Int32Array;
  /** Pause between the end of the turn before and this one. */
  readonly delayMs: Float64Array;
  /** Seconds that the request is ahead of its arrival in the router's queue. */
  readonly priorityJump: Float64Array;
  readonly strictPriority: Uint32Array;
}

/** One request while a workload is put together. */
export interface WorkloadRequest {
  readonly arrivalMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Any safe integers; one for every started stretch of the prompt. */
  readonly stretchIds: readonly number[];
  readonly sessionId?: string | undefined;
  readonly delayMs?: number | undefined;
  readonly priorityJump?: number | undefined;
  readonly strictPriority?: number | undefined;
}

/** Puts requests into columns. Ids are numbered densely in the order of their first use. */
export function toWorkload(requests: readonly WorkloadRequest[], stretchTokens: number): Workload {
  const size = requests.length;
  const stretchesFrom = new Uint32Array(size + 1);
  requests.forEach(({ stretchIds }, at) => {
    stretchesFrom[at + 1] = stretchesFrom[at]! + stretchIds.length;
  });
  return {
    size,
    stretchTokens,
    arrivalMs: Float64Array.from(requests, ({ arrivalMs }) => arrivalMs),
    inputTokens: Uint32Array.from(requests, ({ inputTokens }) => inputTokens),
    outputTokens: Uint32Array.from(requests, ({ outputTokens }) => outputTokens),
    stretchesFrom,
    stretchIds: numberIds(requests, stretchesFrom[size]!),
    ...linkTurns(requests),
    delayMs: Float64Array.from(requests, ({ delayMs = 0 }) => delayMs),
    priorityJump: Float64Array.from(requests, ({ priorityJump = 0 }) => priorityJump),
    strictPriority: Uint32Array.from(requests, ({ strictPriority = 0 }) => strictPriority),
  };
}

function numberIds(requests: readonly WorkloadRequest[], count: number): Uint32Array {
  const numbers = new Map<number, number>(); // bounded by the ids of the workload
  const ids = new Uint32Array(count);
  let at = 0;
  for (const { stretchIds } of requests) {
    for (const id of stretchIds) {
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
