import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../../errors/index.ts';
import { readNpz } from './npz.ts';

/** Duration of the parts of a pass on the modelled GPU. */
export interface TimingModel {
  /** Returns the time to prefill `tokens` uncached prompt tokens in one pass. 0 when nothing prefills. */
  prefillMs(tokens: number): number;
  /**
   * Returns the time of one decode step of sequences that hold `contextTokens` together, each `meanContextTokens`, in a
   * KV cache of `capacityTokens`. At least 1 ms.
   */
  decodeMs(contextTokens: number, meanContextTokens: number, capacityTokens: number): number;
}

/** Speed of a mock engine. */
export interface SpeedUp {
  /** Factor of speed compared with the modelled GPU. 1 = as fast; 0 reads as 1, as in Dynamo. */
  readonly speedupRatio: number;
  /** Factor that multiplies `speedupRatio` for decoding. */
  readonly decodeSpeedupRatio: number;
  /** @default Dynamo's mock engine's polynomials */
  readonly timing?: TimingModel | undefined;
}

/** Returns the time to prefill `tokens` uncached prompt tokens in one pass. 0 when nothing prefills. */
export function prefillMs(tokens: number): number {
  if (tokens <= 0) return 0;
  return 4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142;
}

/**
 * Returns the time of one decode step when the decoding sequences fill the share `usage` (0 to 1) of the KV cache. At
 * least 1 ms.
 */
export function decodeMs(usage: number): number {
  const share = Math.min(usage, 1);
  return Math.max(1, -25.74 * share * share + 54.01 * share + 5.74);
}

const POLYNOMIALS: TimingModel = {
  prefillMs,
  decodeMs: (contextTokens, _, capacityTokens) => decodeMs(contextTokens / capacityTokens),
};

/** Work of a pass, in tokens. */
export interface PassWork {
  /** Requests that prefill in the pass. */
  prefills: number;
  /** Sum of their prompt positions before the pass. */
  prefillStart: number;
  /** Sum of their prompt positions after the pass. */
  prefillEnd: number;
  /** Requests that decode in the pass. */
  decodes: number;
  /** Sum of the context lengths of the decoding requests. */
  decodeContext: number;
}

/** Returns the duration of a pass. Prefill lengths are averaged with integer division, as in the reference. */
export function passMs(work: PassWork, capacityTokens: number, speed: SpeedUp): number {
  const { timing = POLYNOMIALS } = speed;
  const speedup = speed.speedupRatio || 1;
  let durationMs = 0;
  if (work.prefills > 0) {
    const k = work.prefills;
    const tokens = k * (Math.floor(work.prefillEnd / k) - Math.floor(work.prefillStart / k));
    durationMs += timing.prefillMs(tokens) / speedup;
  }
  if (work.decodes > 0) {
    const stepMs = timing.decodeMs(work.decodeContext, work.decodeContext / work.decodes, capacityTokens);
    durationMs += stepMs / (speedup * (speed.decodeSpeedupRatio || 1));
  }
  return durationMs;
}

/** Decode steps measured at one context length. */
interface DecodeRow {
  readonly contextTokens: number;
  /** Tokens in the KV cache, ascending. */
  readonly activeTokens: readonly number[];
  readonly stepMs: readonly number[];
}

/** Measured times. */
interface TimingTables {
  /** Uncached prompt tokens of a pass, ascending. */
  readonly prefillTokens: readonly number[];
  readonly prefillMs: readonly number[];
  /** Rows by ascending context length; at least one row. */
  readonly decode: readonly DecodeRow[];
}

const DECODE_MS_MIN = 1;

type Columns = Readonly<Record<string, readonly number[]>>;

interface DecodePoint {
  readonly contextTokens: number;
  readonly activeTokens: number;
  readonly stepMs: number;
}

/**
 * Reads `--planner-profile-data`: an NPZ file made for the mock engine, or the folder of a profiler, with
 * `selected_{prefill,decode}_interpolation/raw_data.npz` or `{prefill,decode}_raw_data.json`.
 * @throws Error with one line that names the file and its fault
 */
export async function readTimingProfile(path: string): Promise<TimingModel> {
  try {
    const isFolder = (await stat(path)).isDirectory();
    return profiledTiming(isFolder ? await readFolder(path) : mockTables(await readColumns(path)));
  } catch (thrown) {
    throw new Error(`--planner-profile-data ${path}: ${reasonOf(thrown)}`, { cause: thrown });
  }
}

/** Reads the grid `decode_itl[a, c]` over active tokens and context lengths. */
function mockTables(columns: Columns): TimingTables {
  const active = column(columns, 'decode_active_kv_tokens');
  const contexts = column(columns, 'decode_context_length');
  const steps = column(columns, 'decode_itl', active.length * contexts.length);
  const points = active.flatMap((activeTokens, row) =>
    contexts.map((contextTokens, at) => ({ contextTokens, activeTokens, stepMs: steps[row * contexts.length + at]! })),
  );
  return tablesOf(column(columns, 'prefill_isl'), columns, 'prefill_ttft_ms', points);
}

async function readFolder(folder: string): Promise<TimingTables> {
  // first, so that of two missing files the same one is named each time
  const prefill = await readPart(folder, 'prefill');
  const decode = await readPart(folder, 'decode');
  const usage = column(decode, 'x_kv_usage');
  const contexts = column(decode, 'y_context_length', usage.length);
  const steps = column(decode, 'z_itl', usage.length);
  const [maxTokens = 0] = column(decode, 'max_kv_tokens', 1);
  const points = usage.map((share, at) => ({
    contextTokens: contexts[at]!,
    activeTokens: share * maxTokens,
    stepMs: steps[at]!,
  }));
  return tablesOf(column(prefill, 'prefill_isl'), prefill, 'prefill_ttft', points);
}

async function readPart(folder: string, part: 'prefill' | 'decode'): Promise<Columns> {
  const archive = join(folder, `selected_${part}_interpolation`, 'raw_data.npz');
  const isThere = await stat(archive).then(
    () => true,
    () => false, // then the JSON file must exist, or reading it reports what is missing
  );
  return readColumns(isThere ? archive : join(folder, `${part}_raw_data.json`));
}

async function readColumns(path: string): Promise<Columns> {
  const bytes = await readFile(path);
  try {
    if (!path.endsWith('.json')) {
      return Object.fromEntries([...readNpz(bytes)].map(([name, { values }]) => [name, [...values]]));
    }
    const fields = Object.entries(JSON.parse(bytes.toString('utf8')) as Record<string, unknown>);
    return Object.fromEntries(fields.map(([name, value]) => [name, Array.isArray(value) ? value : [value]]));
  } catch (thrown) {
    throw new Error(`${path} cannot be read: ${reasonOf(thrown)}`);
  }
}

function column(columns: Columns, name: string, length?: number): readonly number[] {
  const values = columns[name];
  if (values === undefined || values.length === 0) throw new Error(`${name} is missing`);
  if (!values.every((value) => Number.isFinite(value))) throw new Error(`${name} must contain numbers`);
  if (length !== undefined && values.length !== length) {
    throw new Error(`${name} must contain ${length} numbers, got ${values.length}`);
  }
  return values;
}

function tablesOf(
  prefillTokens: readonly number[],
  columns: Columns,
  timeName: string,
  points: readonly DecodePoint[],
): TimingTables {
  const times = column(columns, timeName, prefillTokens.length);
  const order = risingOrder(prefillTokens);
  return {
    prefillTokens: order.map((at) => prefillTokens[at]!),
    prefillMs: order.map((at) => times[at]!),
    decode: rowsOf(points),
  };
}

/** Groups points by context length into rows. */
function rowsOf(points: readonly DecodePoint[]): readonly DecodeRow[] {
  const byContext = new Map<number, DecodePoint[]>(); // bounded by the points of a file
  for (const point of points) {
    const row = byContext.get(point.contextTokens);
    if (row === undefined) byContext.set(point.contextTokens, [point]);
    else row.push(point);
  }
  return [...byContext]
    .sort(([one], [other]) => one - other)
    .map(([contextTokens, row]) => {
      const order = risingOrder(row.map(({ activeTokens }) => activeTokens)).map((at) => row[at]!);
      return {
        contextTokens,
        activeTokens: order.map(({ activeTokens }) => activeTokens),
        stepMs: order.map(({ stepMs }) => stepMs),
      };
    });
}

/**
 * Returns positions by ascending value; of equal values only the first, because no line leads through two points above
 * each other.
 */
function risingOrder(values: readonly number[]): readonly number[] {
  const order = values.map((_, at) => at).sort((one, other) => values[one]! - values[other]!);
  return order.filter((at, place) => place === 0 || values[at] !== values[order[place - 1]!]);
}

/**
 * Creates a timing model: linear over the prompt tokens of a pass, bilinear over active tokens and mean context.
 * Extrapolates with the last slope outside the measured range.
 */
function profiledTiming({ prefillTokens, prefillMs, decode }: TimingTables): TimingModel {
  const contexts = decode.map(({ contextTokens }) => contextTokens);
  return {
    prefillMs: (tokens) =>
      tokens <= 0
        ? 0
        : atLeast(
            0,
            interpolate(tokens, prefillTokens, (at) => prefillMs[at]!),
          ),
    decodeMs: (active, context) =>
      atLeast(
        DECODE_MS_MIN,
        interpolate(context, contexts, (row) => {
          const { activeTokens, stepMs } = decode[row]!;
          return interpolate(active, activeTokens, (at) => stepMs[at]!);
        }),
      ),
  };
}

/** Returns the value at `x` on the line through the two points around it, or through the nearest two. */
function interpolate(x: number, xs: readonly number[], valueAt: (at: number) => number): number {
  if (xs.length === 1) return valueAt(0);
  let right = 1;
  while (right < xs.length - 1 && xs[right]! < x) right++;
  const left = right - 1;
  const share = (x - xs[left]!) / (xs[right]! - xs[left]!);
  const low = valueAt(left);
  return low + share * (valueAt(right) - low);
}

function atLeast(min: number, value: number): number {
  return value > min ? value : min; // also for NaN
}
