import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { TimeAndChance } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { Progress } from '../../telemetry/index.ts';
import { UsageError } from '../config.ts';
import {
  capacitiesWithin,
  type DecodePoint,
  measureProfile,
  NOTHING_MEASURED,
  type ProfilePlan,
  type ProfileRecord,
  tablesOf,
} from './profile.ts';

/** Lines of `stator profile --help`. */
export const PROFILE_HELP = `Usage: stator profile --kv-tokens N [--url URL] [--model NAME] [--output FOLDER] [what to measure]

Measures how fast one worker answers. The worker must be the only one behind an OpenAI-compatible endpoint. The command
measures the time to the first token by prompt length, and the time between tokens by prompt length, answer length and
number of streams. It writes prefill_raw_data.json and decode_raw_data.json, which stator simulate and mock engines read
(--planner-profile-data FOLDER). It prints what the worker serves within its targets, for the planner.

A second run continues an interrupted one, and measures only lengths that FOLDER/measured.json does not contain yet.

  --url URL             base URL of the endpoint (default: http://127.0.0.1:8000/v1)
  --model NAME          model to measure (default: the only model that is served)
  --kv-tokens N         size of the worker's KV cache in tokens; the worker prints it when it starts
  --output FOLDER       folder for the results (default: profile)
  --isl A,B,...         prompt lengths in tokens (default: 256,1024,4096)
  --osl A,B,...         answer lengths in tokens, each at least 2 (default: 64,256)
  --concurrency A,B,... numbers of concurrent streams (default: 1,2,4,8,16,32,64)
  --repeats N           prompts for each length (default: 5)
  --ttft-ms N           target for the time to the first token (default: 500)
  --itl-ms N            target for the time between tokens (default: 50)
  --timeout SECONDS     limit for the whole run (default: 3600)

If the endpoint requires a key, set STATOR_API_KEY or OPENAI_API_KEY.
`;

const OPTIONS = {
  url: { type: 'string', default: 'http://127.0.0.1:8000/v1' },
  model: { type: 'string' },
  'kv-tokens': { type: 'string' },
  output: { type: 'string', default: 'profile' },
  isl: { type: 'string', default: '256,1024,4096' },
  osl: { type: 'string', default: '64,256' },
  concurrency: { type: 'string', default: '1,2,4,8,16,32,64' },
  repeats: { type: 'string', default: '5' },
  'ttft-ms': { type: 'string', default: '500' },
  'itl-ms': { type: 'string', default: '50' },
  timeout: { type: 'string', default: '3600' },
} as const;

const MEASURED = 'measured.json';
const POINTS_MAX = 32;

/**
 * Runs `stator profile`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, Error with one line when the endpoint cannot be measured
 */
export async function runProfile(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  { clock, random }: TimeAndChance,
): Promise<string> {
  const values = parse(argv);
  const url = values.url.replace(/\/$/, '');
  if (!URL.canParse(url))
    throw new UsageError(`--url ${JSON.stringify(url)}: allowed: a URL such as ${OPTIONS.url.default}`);
  const plan: ProfilePlan = {
    isl: readNumbers('--isl', values.isl, 1_000_000),
    osl: readNumbers('--osl', values.osl, 100_000, 2),
    concurrency: readNumbers('--concurrency', values.concurrency, 4096),
    repeats: readNumber('--repeats', values.repeats, 1000),
    kvTokens: readNumber('--kv-tokens', values['kv-tokens'], 1e12),
  };
  const [ttftMs, itlMs] = [
    readNumber('--ttft-ms', values['ttft-ms'], 1e9),
    readNumber('--itl-ms', values['itl-ms'], 1e9),
  ];
  const signal = AbortSignal.timeout(1000 * readNumber('--timeout', values.timeout, 604_800));
  const apiKey = env.STATOR_API_KEY ?? env.OPENAI_API_KEY;
  const model = values.model ?? (await onlyModel(url, apiKey, signal));
  const server = { url, model, apiKey, clock, random };
  await mkdir(values.output, { recursive: true });
  const path = join(values.output, MEASURED);
  const about = JSON.stringify({ url, model, repeats: plan.repeats });
  const progress = new Progress(process.stderr);
  try {
    const known = await readMeasured(path, about);
    const record = await measureProfile(
      server,
      plan,
      known,
      async (now, told) => {
        progress.tell(told);
        await writeWhole(path, { about, ...now });
      },
      signal,
    );
    for (const [name, table] of Object.entries(tablesOf(record, plan.kvTokens)))
      await writeWhole(join(values.output, name), table);
    return report(record, values.output, ttftMs, itlMs);
  } finally {
    progress.end();
  }
}

function report(record: ProfileRecord, folder: string, ttftMs: number, itlMs: number): string {
  const targets = `${ttftMs} ms to the first token and ${itlMs} ms between tokens`;
  const best = capacitiesWithin(record, ttftMs, itlMs);
  const verdict =
    best.length === 0
      ? [`No load holds ${targets}.`]
      : [
          `For the planner, what the worker serves within ${targets}: take the line that is like your requests.`,
          ...best.map(
            ({ isl, osl, concurrency, requestsPerSecond: rate }) =>
              `  prompts of ${isl}, answers of ${osl} (${concurrency} at once): --planner-config '{"rate_requests_per_second": ${rate.toFixed(2)}}'`,
          ),
        ];
  const lines = [
    '   isl    osl  streams   TTFT ms   ITL ms   requests/s',
    ...record.decode.map(row),
    '',
    ...verdict,
    `Tables are in ${folder}: --planner-profile-data ${folder}`,
  ];
  return `${lines.join('\n')}\n`;
}

function row({ isl, osl, concurrency, ttftMs, itlMs, requestsPerSecond }: DecodePoint): string {
  const cells = [
    `${isl}`.padStart(6),
    `${osl}`.padStart(7),
    `${concurrency}`.padStart(9),
    ttftMs.toFixed(0).padStart(10),
    itlMs.toFixed(1).padStart(9),
    requestsPerSecond.toFixed(2).padStart(13),
  ];
  return cells.join('');
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS }).values;
  } catch (thrown) {
    throw new UsageError(reasonOf(thrown).split('.')[0] ?? 'stator profile: its arguments cannot be read');
  }
}

function readNumber(flag: string, text: string | undefined, most: number, least = 1): number {
  const value = Number(text);
  if (text !== undefined && /^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new UsageError(`${flag} ${JSON.stringify(text ?? '')}: allowed: a whole number from ${least} to ${most}`);
}

function readNumbers(flag: string, text: string, most: number, least?: number): readonly number[] {
  const parts = text.split(',');
  if (parts.length > POINTS_MAX) throw new UsageError(`${flag}: allowed: at most ${POINTS_MAX} numbers`);
  return [...new Set(parts.map((part) => readNumber(flag, part.trim(), most, least)))].sort(
    (one, other) => one - other,
  );
}

async function onlyModel(url: string, apiKey: string | undefined, signal: AbortSignal): Promise<string> {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const response = await fetch(`${url}/models`, { headers, signal }).catch((thrown: unknown) => {
    throw new Error(`no answer from ${url} (--url): ${reasonOf((thrown as Error).cause ?? thrown)}`);
  });
  if (!response.ok) throw new Error(`${url}/models answers with status ${response.status}`);
  const { data } = (await response.json()) as { readonly data: readonly { readonly id: string }[] };
  const [first, ...others] = data.map(({ id }) => id);
  if (first === undefined) throw new Error(`no model is served at ${url}`);
  if (others.length > 0) throw new UsageError(`--model is needed: ${[first, ...others].join(', ')} are served`);
  return first;
}

/** Reads an earlier record; ignores one of another server or another measurement. */
async function readMeasured(path: string, about: string): Promise<ProfileRecord> {
  const text = await readFile(path, 'utf8').catch(() => undefined); // there is none yet
  if (text === undefined) return NOTHING_MEASURED;
  const { about: of, prefill, decode } = JSON.parse(text) as ProfileRecord & { readonly about?: string };
  if (of !== about)
    throw new UsageError(`${path} is of another measurement (${of}); name another --output, or remove it`);
  return { prefill, decode };
}

/** Writes the whole file or nothing, because a user may stop a run at any time. */
async function writeWhole(path: string, value: object): Promise<void> {
  await writeFile(`${path}.new`, `${JSON.stringify(value, undefined, 2)}\n`);
  await rename(`${path}.new`, path);
}
