import { writeFile } from 'node:fs/promises';
import { type Environment, resolveConfig } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import { type DecisionRecord, namesOf, type PlannerStore, readOpenSample, type TickRecord } from '../planner/index.ts';
import {
  type EndedSample,
  type FleetStory,
  type GpuPrices,
  optionsOf,
  priceOf,
  renderFleet,
} from '../simulate/index.ts';
import { UsageError } from './config.ts';
import { chooseGroup } from './planner/choose-group.ts';
import { openPlannerStore } from './planner/planner-store.ts';
import { readTimeSpan } from './time-span.ts';

/** Lines of `stator planner report --help`. */
export const REPORT_PLANNER_HELP = `Usage: stator planner report [--model M] [--since TIME] [--output FILE] [flags of stator planner]

Writes a page of what happened in a fleet: demand, workers by option and by phase of their start, decisions and what
became of them, interruptions, latencies against their targets, GPU hours and dollars. The page is one HTML file that
loads nothing.

  --model M          the model (also --planner-model)
  --since TIME       how far back it goes: 90s, 30m, 6h or 2d (default 6h, at most 7d)
  --output FILE      writes the page to a file (default: standard output)
  --gpu-price PRICE  US$ of a GPU in an hour: one number, or OPTION=NUMBER with commas between (0-on-demand=4.1,1-spot=1.6)
  --json             prints what the page shows as JSON

The flags of stator planner name the place of the records: --planner-dir or STATOR_PLANNER_TABLE. --namespace and
--planner-model choose among several models. A planner records a fleet about once a minute, and keeps a week of it in a
table, or the last 2000 records in a folder.
`;

const ANSWER_MS_MAX = 60_000;
/** Most records and decisions that a page is made of. */
const RECORDS_MAX = 30_000;
const DECISIONS_MAX = 1000;
const DAY_MS = 86_400_000;
const SINCE_DAYS_MAX = 7;
const PRICE_MAX = 10_000;

/**
 * Runs `stator planner report`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, a model that is not there, or a file that cannot be written
 */
export async function reportPlanner(argv: readonly string[], env: Environment, wallMs: number): Promise<string> {
  const { flags, sinceMs, output, prices, isJson } = readArguments(argv);
  const { settings } = resolveConfig('planner', flags, env);
  const store = await openPlannerStore(settings, env);
  try {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const group = await chooseGroup(store, settings, signal);
    const story = await readStory(store, group, { fromMs: wallMs - sinceMs, untilMs: wallMs, prices }, signal);
    const text = isJson ? jsonOf(story) : renderFleet(story);
    if (output === undefined) return text;
    await write(output, text);
    const { samples, decisions } = story;
    return `${output}: ${group}, ${samples.length} records and ${decisions.length} decisions\n`;
  } finally {
    await store.close();
  }
}

async function readStory(
  store: PlannerStore,
  group: string,
  { fromMs, untilMs, prices }: Pick<FleetStory, 'fromMs' | 'untilMs' | 'prices'>,
  signal: AbortSignal,
): Promise<FleetStory> {
  const [namespace = '', model = ''] = namesOf(group);
  const ticks = await store.ticks(group, { sinceMs: fromMs, countMax: RECORDS_MAX }, signal);
  const decisions = await store.decisions(group, { sinceMs: fromMs, countMax: DECISIONS_MAX }, signal);
  const open = readOpenSample((await store.readState(group, signal))?.state ?? '');
  const stored = ticks.toReversed().flatMap(({ atMs, sample }) => (sample === undefined ? [] : [{ atMs, sample }]));
  const isNew = open !== undefined && open.atMs >= fromMs && open.atMs > (stored.at(-1)?.atMs ?? 0);
  const samples = isNew ? [...stored, open] : stored;
  checkPrices(prices, samples);
  const notes = notesOf(ticks, stored, decisions);
  return { namespace, model, fromMs, untilMs, samples, decisions, prices, notes };
}

/** Returns what a reader must know of records that are missing. */
function notesOf(
  ticks: readonly TickRecord[],
  samples: readonly EndedSample[],
  decisions: readonly DecisionRecord[],
): readonly string[] {
  const notes: string[] = [];
  if (ticks.length > samples.length) {
    notes.push(`Records of an earlier release, without numbers for the charts: ${ticks.length - samples.length}.`);
  }
  if (ticks.length === RECORDS_MAX) notes.push(`Only the last ${RECORDS_MAX} records were read.`);
  if (decisions.length === DECISIONS_MAX) notes.push(`Only the last ${DECISIONS_MAX} decisions were read.`);
  return notes;
}

/** @throws UsageError for a price of an option that the fleet does not have */
function checkPrices({ byOption }: GpuPrices, samples: readonly EndedSample[]): void {
  const known = optionsOf(samples);
  const isKnown = (name: string): boolean => known.some((key) => key === name || key.endsWith(`/${name}`));
  const unknown = Object.keys(byOption).find((name) => !isKnown(name));
  if (unknown === undefined || known.length === 0) return;
  throw new UsageError(`--gpu-price ${unknown}: the fleet has no such option; allowed: ${known.join(', ')}`);
}

function jsonOf({ namespace, model, fromMs, untilMs, samples, decisions, prices, notes }: FleetStory): string {
  const from = new Date(fromMs).toISOString();
  const until = new Date(untilMs).toISOString();
  const gpu_prices = Object.fromEntries(optionsOf(samples).map((option) => [option, priceOf(prices, option)]));
  const story = { namespace, model, from, until, notes, gpu_prices, samples, decisions };
  return `${JSON.stringify(story, undefined, 2)}\n`;
}

async function write(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text);
  } catch (thrown) {
    throw new UsageError(`--output ${path}: cannot be written: ${reasonOf(thrown)}`);
  }
}

const VALUED = { '--model': 'model', '--since': 'since', '--output': 'output', '--gpu-price': 'price' } as const;

function readArguments(argv: readonly string[]) {
  const flags: string[] = [];
  const given: Partial<Record<(typeof VALUED)[keyof typeof VALUED], string>> = {};
  let isJson = false;
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at]!;
    const [name = '', ...rest] = argument.split('=');
    if (argument === '--json') isJson = true;
    else if (Object.hasOwn(VALUED, name)) {
      const value = argument.includes('=') ? rest.join('=') : argv[++at];
      const isMissing = value === undefined || value === '' || (value.startsWith('--') && !argument.includes('='));
      if (isMissing) throw new UsageError(`${name} needs a value`);
      given[VALUED[name as keyof typeof VALUED]] = value;
    } else flags.push(argument);
  }
  const model = given.model === undefined ? [] : [`--planner-model=${given.model}`];
  return {
    flags: [...flags, ...model],
    sinceMs: sinceOf(given.since ?? '6h'),
    output: given.output,
    prices: pricesOf(given.price),
    isJson,
  };
}

function sinceOf(text: string): number {
  const ms = readTimeSpan(text);
  if (ms >= 1000 && ms <= SINCE_DAYS_MAX * DAY_MS) return ms;
  throw new UsageError(`--since ${JSON.stringify(text)}: allowed: 1s to ${SINCE_DAYS_MAX}d, such as 30m or 6h`);
}

function pricesOf(text: string | undefined): GpuPrices {
  if (text === undefined) return { byOption: {} };
  const byOption: Record<string, number> = {};
  let all: number | undefined;
  for (const part of text.split(',')) {
    const at = part.indexOf('=');
    const [name, number] = at < 0 ? [undefined, part] : [part.slice(0, at), part.slice(at + 1)];
    const price = Number(number);
    if (number.trim() === '' || !(price >= 0 && price <= PRICE_MAX) || name === '') {
      throw new UsageError(
        `--gpu-price ${JSON.stringify(part)}: allowed: US$ an hour from 0 to ${PRICE_MAX}, or OPTION=NUMBER`,
      );
    }
    if (name === undefined) all = price;
    else byOption[name] = price;
  }
  return { all, byOption };
}
