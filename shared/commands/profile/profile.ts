import { type MeasuredStream, measureStream, type ProfiledServer } from './measure.ts';

/** What is measured. */
export interface ProfilePlan {
  /** Prompt lengths, in tokens. */
  readonly isl: readonly number[];
  /** Output lengths of the decode points, in tokens. */
  readonly osl: number;
  /** Streams at once, rising. */
  readonly concurrency: readonly number[];
  /** Prompts that each prefill point is the median of. */
  readonly repeats: number;
  /** Tokens that the KV cache holds. */
  readonly kvTokens: number;
}

export interface PrefillPoint {
  readonly isl: number;
  readonly ttftMs: number;
}

export interface DecodePoint {
  readonly isl: number;
  readonly concurrency: number;
  readonly itlMs: number;
  readonly ttftMs: number;
  /** Requests a second that the streams made together. */
  readonly requestsPerSecond: number;
}

/** What has been measured so far: kept in a file, so that a run goes on where another was stopped. */
export interface ProfileRecord {
  readonly prefill: readonly PrefillPoint[];
  readonly decode: readonly DecodePoint[];
}

export const NOTHING_MEASURED: ProfileRecord = { prefill: [], decode: [] };

/** Streams that each place of a concurrency makes, one after the other. */
const ROUNDS = 2;

/**
 * Measures what is missing, a point at a time.
 * @param keep called with all that is known after each point
 */
export async function measureProfile(
  server: ProfiledServer,
  plan: ProfilePlan,
  known: ProfileRecord,
  keep: (record: ProfileRecord, told: string) => Promise<void>,
  signal: AbortSignal,
): Promise<ProfileRecord> {
  let record = known;
  await measureStream(server, plan.isl[0]!, 2, signal); // the first one loads what later ones find loaded
  for (const isl of plan.isl) {
    if (record.prefill.some((point) => point.isl === isl)) continue;
    const point = await measurePrefill(server, isl, plan.repeats, signal);
    record = { ...record, prefill: [...record.prefill, point] };
    await keep(record, `prefill of ${isl} tokens: ${point.ttftMs.toFixed(0)} ms`);
  }
  for (const isl of plan.isl) {
    for (const concurrency of plan.concurrency) {
      if (concurrency * (isl + plan.osl) > plan.kvTokens) continue;
      if (record.decode.some((point) => point.isl === isl && point.concurrency === concurrency)) continue;
      const point = await measureDecode(server, isl, plan.osl, concurrency, signal);
      record = { ...record, decode: [...record.decode, point] };
      await keep(record, `${concurrency} streams with prompts of ${isl} tokens: ${point.itlMs.toFixed(1)} ms a token`);
    }
  }
  return record;
}

async function measurePrefill(
  server: ProfiledServer,
  isl: number,
  repeats: number,
  signal: AbortSignal,
): Promise<PrefillPoint> {
  const times: number[] = [];
  for (let at = 0; at < repeats; at++) times.push((await measureStream(server, isl, 1, signal)).ttftMs);
  return { isl, ttftMs: median(times) };
}

async function measureDecode(
  server: ProfiledServer,
  isl: number,
  osl: number,
  concurrency: number,
  signal: AbortSignal,
): Promise<DecodePoint> {
  const startMs = server.clock.nowMs();
  const streams: MeasuredStream[] = [];
  const place = async (): Promise<void> => {
    for (let round = 0; round < ROUNDS; round++) streams.push(await measureStream(server, isl, osl, signal));
  };
  await Promise.all(Array.from({ length: concurrency }, place));
  const seconds = (server.clock.nowMs() - startMs) / 1000;
  return {
    isl,
    concurrency,
    itlMs: median(streams.flatMap(({ itlMs }) => (itlMs === undefined ? [] : [itlMs]))),
    ttftMs: median(streams.map(({ ttftMs }) => ttftMs)),
    requestsPerSecond: streams.length / seconds,
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

/** The tables that planner, simulator and mock engine read, by file name. */
export function tablesOf(record: ProfileRecord, plan: ProfilePlan): Readonly<Record<string, object>> {
  const prefill = record.prefill.toSorted((one, other) => one.isl - other.isl);
  const decode = record.decode.toSorted((one, other) => one.isl - other.isl || one.concurrency - other.concurrency);
  const contextOf = ({ isl }: DecodePoint): number => isl + plan.osl / 2;
  return {
    'prefill_raw_data.json': {
      prefill_isl: prefill.map(({ isl }) => isl),
      prefill_ttft: prefill.map(({ ttftMs }) => ttftMs),
      prefill_thpt_per_gpu: prefill.map(({ isl, ttftMs }) => (1000 * isl) / ttftMs),
    },
    'decode_raw_data.json': {
      x_kv_usage: decode.map((point) => (point.concurrency * contextOf(point)) / plan.kvTokens),
      y_context_length: decode.map(contextOf),
      z_itl: decode.map(({ itlMs }) => itlMs),
      z_thpt_per_gpu: decode.map(({ concurrency, itlMs }) => (1000 * concurrency) / itlMs),
      max_kv_tokens: plan.kvTokens,
    },
  };
}

/** The most requests a second of any point within the targets; undefined where none is. */
export function capacityWithin(record: ProfileRecord, ttftMs: number, itlMs: number): DecodePoint | undefined {
  return record.decode
    .filter((point) => point.ttftMs <= ttftMs && point.itlMs <= itlMs)
    .reduce<DecodePoint | undefined>(
      (best, point) => (best === undefined || point.requestsPerSecond > best.requestsPerSecond ? point : best),
      undefined,
    );
}
