import type { Clock, Random } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';

/** Plan of a measurement. */
export interface ProfilePlan {
  /** Prompt lengths, in tokens. */
  readonly isl: readonly number[];
  /** Output lengths of the decode points, in tokens; each at least 2, as the time between tokens is measured. */
  readonly osl: readonly number[];
  /** Streams at once, rising. */
  readonly concurrency: readonly number[];
  /** Number of prompts whose median is a prefill point. */
  readonly repeats: number;
  /** Tokens that the KV cache holds. */
  readonly kvTokens: number;
}

interface PrefillPoint {
  readonly isl: number;
  readonly ttftMs: number;
}

/** One load of a worker: streams of the same lengths. */
interface DecodeLoad {
  readonly isl: number;
  readonly osl: number;
  /** Streams at once. */
  readonly concurrency: number;
}

export interface DecodePoint extends DecodeLoad {
  readonly itlMs: number;
  readonly ttftMs: number;
  /** Requests a second of all streams together. */
  readonly requestsPerSecond: number;
}

/** Results so far, kept in a file so that a run continues where another was stopped. */
export interface ProfileRecord {
  readonly prefill: readonly PrefillPoint[];
  readonly decode: readonly DecodePoint[];
}

export const NOTHING_MEASURED: ProfileRecord = { prefill: [], decode: [] };

/** Streams that run one after the other in each place of a concurrency. */
const ROUNDS = 2;

/**
 * Measures what is missing, a point at a time.
 * @param keep called after each point with all results so far, and with the progress of the whole
 * @throws Error with one line when no load fits into the KV cache, or the server does not answer
 */
export async function measureProfile(
  server: ProfiledServer,
  plan: ProfilePlan,
  known: ProfileRecord,
  keep: (record: ProfileRecord, told: string) => Promise<void>,
  signal: AbortSignal,
): Promise<ProfileRecord> {
  const loads = loadsOf(plan);
  const points = plan.isl.length + loads.length;
  let record = known;
  let done = 0;
  const isFresh = plan.isl.some((isl) => !hasPrefill(known, isl)) || loads.some((load) => !hasDecode(known, load));
  // The first request loads what later ones find loaded.
  if (isFresh) await measureStream(server, plan.isl[0]!, 2, signal);
  for (const isl of plan.isl) {
    done++;
    if (hasPrefill(record, isl)) continue;
    const point = await measurePrefill(server, isl, plan.repeats, signal);
    record = { ...record, prefill: [...record.prefill, point] };
    await keep(record, `${done} of ${points}: prefill of ${isl} tokens: ${point.ttftMs.toFixed(0)} ms`);
  }
  for (const load of loads) {
    done++;
    if (hasDecode(record, load)) continue;
    const point = await measureDecode(server, load, signal);
    record = { ...record, decode: [...record.decode, point] };
    await keep(record, `${done} of ${points}: ${toldOf(load)}: ${point.itlMs.toFixed(1)} ms a token`);
  }
  return record;
}

/** Returns the loads of the plan that the KV cache holds, by prompts, then answers, then streams. */
function loadsOf({ isl: prompts, osl: answers, concurrency: streams, kvTokens }: ProfilePlan): readonly DecodeLoad[] {
  const all = prompts.flatMap((isl) =>
    answers.flatMap((osl) => streams.map((concurrency) => ({ isl, osl, concurrency }))),
  );
  const fitting = all.filter(({ isl, osl, concurrency }) => concurrency * (isl + osl) <= kvTokens);
  if (fitting.length > 0) return fitting;
  throw new Error(`no load fits into --kv-tokens ${kvTokens}: even ${toldOf(all[0]!)} need more`);
}

function toldOf({ isl, osl, concurrency }: DecodeLoad): string {
  return `${concurrency} stream${concurrency === 1 ? '' : 's'} with prompts of ${isl} and answers of ${osl} tokens`;
}

function hasPrefill({ prefill }: ProfileRecord, isl: number): boolean {
  return prefill.some((point) => point.isl === isl);
}

function hasDecode({ decode }: ProfileRecord, { isl, osl, concurrency }: DecodeLoad): boolean {
  return decode.some((point) => point.isl === isl && point.osl === osl && point.concurrency === concurrency);
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
  { isl, osl, concurrency }: DecodeLoad,
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
    osl,
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

/** Returns the tables that planner, simulator and mock engine read, by file name. */
export function tablesOf(record: ProfileRecord, kvTokens: number): Readonly<Record<string, object>> {
  const prefill = record.prefill.toSorted((one, other) => one.isl - other.isl);
  const decode = onePerPlace(record.decode);
  return {
    'prefill_raw_data.json': {
      prefill_isl: prefill.map(({ isl }) => isl),
      prefill_ttft: prefill.map(({ ttftMs }) => ttftMs),
      prefill_thpt_per_gpu: prefill.map(({ isl, ttftMs }) => (1000 * isl) / ttftMs),
    },
    'decode_raw_data.json': {
      x_kv_usage: decode.map((point) => (point.concurrency * contextOf(point)) / kvTokens),
      y_context_length: decode.map(contextOf),
      z_itl: decode.map(({ itlMs }) => itlMs),
      z_thpt_per_gpu: decode.map(({ concurrency, itlMs }) => (1000 * concurrency) / itlMs),
      max_kv_tokens: kvTokens,
    },
  };
}

/** Returns the mean number of tokens of a stream while it answers. */
function contextOf({ isl, osl }: DecodeLoad): number {
  return isl + osl / 2;
}

/**
 * Returns one point for each context and number of streams, sorted by both. Long answers to short prompts, and short
 * ones to long prompts, may have the same context. A table has one time there: that of the longest answers, which is
 * measured over the most tokens.
 */
function onePerPlace(points: readonly DecodePoint[]): readonly DecodePoint[] {
  const sorted = points.toSorted(
    (one, other) => contextOf(one) - contextOf(other) || one.concurrency - other.concurrency || other.osl - one.osl,
  );
  return sorted.filter((point, at) => {
    const before = sorted[at - 1];
    return before?.concurrency !== point.concurrency || contextOf(before) !== contextOf(point);
  });
}

/**
 * Returns, for each pair of lengths, the load within the targets with the most requests a second. It leaves out pairs
 * without such a load.
 */
export function capacitiesWithin(record: ProfileRecord, ttftMs: number, itlMs: number): readonly DecodePoint[] {
  const best = new Map<string, DecodePoint>(); // bounded by the points of a record
  for (const point of record.decode.toSorted((one, other) => one.isl - other.isl || one.osl - other.osl)) {
    if (point.ttftMs > ttftMs || point.itlMs > itlMs) continue;
    const pair = `${point.isl}/${point.osl}`;
    const { requestsPerSecond: known = 0 } = best.get(pair) ?? {};
    if (point.requestsPerSecond > known) best.set(pair, point);
  }
  return [...best.values()];
}

/** Server that the profile measures. */
interface ProfiledServer {
  /** URL of its API, with `/v1` at the end. */
  readonly url: string;
  readonly model: string;
  readonly apiKey: string | undefined;
  readonly clock: Clock;
  readonly random: Random;
}

/** Times of one answer, in milliseconds. */
interface MeasuredStream {
  readonly ttftMs: number;
  /** Mean gap between two tokens; undefined for an answer of one. */
  readonly itlMs: number | undefined;
}

/** Ids that every vocabulary has. In all known vocabularies they are not special tokens. */
const ID_FROM = 100;
const ID_SPAN = 900;

/** Returns a prompt that no worker has cached. */
function freshPrompt(tokens: number, random: Random): readonly number[] {
  return Array.from({ length: tokens }, () => ID_FROM + Math.floor(random.next() * ID_SPAN));
}

/**
 * Streams a completion of exactly `osl` tokens for a fresh prompt of `isl`.
 * @throws Error with one line if the server does not answer in this way
 */
async function measureStream(
  { url, model, apiKey, clock, random }: ProfiledServer,
  isl: number,
  osl: number,
  signal: AbortSignal,
): Promise<MeasuredStream> {
  const body = {
    model,
    prompt: freshPrompt(isl, random),
    max_tokens: osl,
    min_tokens: osl,
    ignore_eos: true,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  };
  const sentMs = clock.nowMs();
  const response = await post(`${url}/completions`, body, apiKey, signal);
  let firstMs: number | undefined;
  let lastMs = sentMs;
  let usage: { readonly completion_tokens?: number } | undefined;
  for await (const event of eventsOf(response)) {
    const { choices = [], usage: told } = event as {
      readonly choices?: readonly unknown[];
      readonly usage?: typeof usage;
    };
    usage = told ?? usage;
    if (choices.length === 0) continue;
    lastMs = clock.nowMs();
    firstMs ??= lastMs;
  }
  if (firstMs === undefined) throw new Error(`${url}/completions: the stream of a completion had no token`);
  const outputTokens = usage?.completion_tokens ?? osl;
  return {
    ttftMs: firstMs - sentMs,
    itlMs: outputTokens > 1 ? (lastMs - firstMs) / (outputTokens - 1) : undefined,
  };
}

async function post(url: string, body: object, apiKey: string | undefined, signal: AbortSignal): Promise<Response> {
  const headers = {
    'content-type': 'application/json',
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
  };
  let response: Response;
  try {
    response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal });
  } catch (thrown) {
    throw new Error(`no answer from ${url} (--url): ${reasonOf((thrown as Error).cause ?? thrown)}`);
  }
  if (response.ok) return response;
  const text = await response.text();
  throw new Error(`${url} answers with status ${response.status}: ${text.slice(0, 300)}`);
}

/** Yields the data of server-sent events, up to `[DONE]`. */
async function* eventsOf(response: Response): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of response.body ?? []) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;
      const data = line.slice('data:'.length).trim();
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}
