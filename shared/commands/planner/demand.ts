/** What frontends have counted, as their metrics say: totals since their start, and what is under way. */
export interface CountedDemand {
  readonly started: number;
  readonly active: number;
  readonly held: number;
  readonly inputTokens: number;
  readonly inputs: number;
  readonly outputTokens: number;
  readonly outputs: number;
  readonly gapSeconds: number;
  readonly gaps: number;
}

/** What came of it between two looks. Lengths in tokens, means. */
export interface SeenDemand {
  readonly started: number;
  readonly running: number;
  readonly held: number;
  readonly isl: number | undefined;
  readonly osl: number | undefined;
  /** Mean time between two tokens. */
  readonly itlMs: number | undefined;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{.*\})? (\S+)$/;

/** Reads the text of a `/metrics` page; series of all models and routes add up. @param prefix of the frontend's metrics */
export function readDemand(page: string, prefix: string): CountedDemand {
  const sums = new Map<string, number>();
  for (const line of page.split('\n')) {
    const [, name = '', value = ''] = LINE.exec(line) ?? [];
    const number = Number(value);
    if (name !== '' && Number.isFinite(number)) sums.set(name, (sums.get(name) ?? 0) + number);
  }
  const sum = (name: string): number => sums.get(name) ?? 0;
  return {
    started: sum(`${prefix}_requests_started_total`),
    active: sum(`${prefix}_active_requests`),
    held: sum('stator_frontend_held_requests'),
    inputTokens: sum(`${prefix}_input_sequence_tokens_sum`),
    inputs: sum(`${prefix}_input_sequence_tokens_count`),
    outputTokens: sum(`${prefix}_output_sequence_tokens_sum`),
    outputs: sum(`${prefix}_output_sequence_tokens_count`),
    gapSeconds: sum(`${prefix}_inter_token_latency_seconds_sum`),
    gaps: sum(`${prefix}_inter_token_latency_seconds_count`),
  };
}

/** What happened since `before`. A frontend that began anew counts from nothing. */
export function demandSince(before: CountedDemand, now: CountedDemand): SeenDemand {
  const isNew = now.started < before.started;
  const grown = (name: keyof CountedDemand): number => Math.max(0, isNew ? now[name] : now[name] - before[name]);
  const mean = (total: number, count: number): number | undefined => (count > 0 ? total / count : undefined);
  const gapSeconds = mean(grown('gapSeconds'), grown('gaps'));
  return {
    started: grown('started'),
    running: Math.max(0, now.active - now.held),
    held: now.held,
    isl: mean(grown('inputTokens'), grown('inputs')),
    osl: mean(grown('outputTokens'), grown('outputs')),
    itlMs: gapSeconds === undefined ? undefined : 1000 * gapSeconds,
  };
}
