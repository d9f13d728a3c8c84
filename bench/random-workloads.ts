// Compares the cost model `stator` with six settings of Dynamo's formula on workloads that are drawn at random: what
// prompts share, lengths, load and number of workers. The worst ones come first: they show what the model lacks.
//   npm run bench:part -- bench/random-workloads.ts --out FILE [--from 0] [--to 40] [--only stator]
// Each workload is one line of FILE. --from, --to: numbers of the workloads, which are their seeds. --only stator:
// takes Dynamo's figures from FILE.
import { appendFile, readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { type Random, seededRandom } from '../shared/clock/index.ts';
import { resolveConfig } from '../shared/config/index.ts';
import { type KvRouterConfig, kvRouterConfig } from '../shared/scheduler/kv-config.ts';
import { capacityOf, rateOf } from '../shared/simulate/capacity.ts';
import { WorkloadSource } from '../shared/simulate/index.ts';
import { simulate } from '../shared/simulate/simulate.ts';
import { summarize } from '../shared/simulate/summary.ts';
import { REFERENCE_ENGINE } from '../test/shared/simulate/simulation-bed.ts';

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    from: { type: 'string', default: '0' },
    to: { type: 'string', default: '40' },
    only: { type: 'string' },
  },
});
const { out } = values;
if (out === undefined) throw new Error('--out FILE is needed: results go there');
if (values.only !== undefined && values.only !== 'stator') throw new Error(`--only ${values.only}: allowed: stator`);

const SEED = 1000;
const DYNAMO = { costModel: 'dynamo', routerTemperature: 0 } as const;
const NO_QUEUE = { queueThreshold: undefined };
/** The defaults, and settings that are often the best of one figure. */
const SETTINGS: readonly Partial<KvRouterConfig>[] = [
  DYNAMO,
  { ...DYNAMO, ...NO_QUEUE, prefillLoadScale: 0.5, overlapScoreCredit: 2 },
  { ...DYNAMO, queueThreshold: 0, queuePolicy: 'wspt', prefillLoadScale: 16, overlapScoreCredit: 4 },
  { ...DYNAMO, ...NO_QUEUE, prefillLoadScale: 4 },
  { ...DYNAMO, ...NO_QUEUE, prefillLoadScale: 0.5, decodeActiveRequestWeight: 4 },
  { ...DYNAMO, queueThreshold: 0, queuePolicy: 'fcfs', prefillLoadScale: 32, overlapScoreCredit: 2 },
];

/** Mean TTFT, p99 TTFT and mean E2E, in ms. */
type Figures = readonly [ttftMean: number, ttftP99: number, e2eMean: number];

interface Drawn {
  readonly workers: number;
  /** Requests as a share of the fleet's capacity. */
  readonly load: number;
  /** Flags of `stator simulate`. */
  readonly flags: readonly string[];
}

interface Line extends Drawn {
  readonly number: number;
  readonly stator: Figures;
  /** By setting. */
  readonly dynamo: readonly Figures[];
}

function pick<T>(random: Random, choices: readonly T[]): T {
  return choices[random.below(choices.length)] as T;
}

/** Draws a whole number whose logarithm is uniform. */
function drawLog(random: Random, least: number, most: number): number {
  return Math.round(least * (most / least) ** random.next());
}

function draw(number: number): Drawn {
  const random = seededRandom(SEED + number);
  const workload = pick(random, ['agents', 'tenants', 'retrieval', 'chats', 'sessions']);
  const workers = pick(random, [2, 4, 8, 8, 16, 32]);
  const load = 0.3 + 0.75 * random.next();
  const prefixes = drawLog(random, 1, 4 * workers);
  const least = drawLog(random, 300, 20_000);
  const most = Math.min(60_000, Math.round(least * (1 + 5 * random.next())));
  const requests = Math.min(4000, 200 * workers);
  const hasTurns = workload === 'chats' || workload === 'sessions';
  const isRetrieval = workload === 'retrieval';
  const flags = [
    `--workload=${workload}`,
    `--seed=${number + 1}`,
    `--request-count=${hasTurns ? Math.ceil(requests / 3) : requests}`,
    `--num-prefix-groups=${isRetrieval ? 10 * prefixes : prefixes}`,
    `--input-tokens=${drawLog(random, 100, 8000)}`,
    `--output-tokens=${drawLog(random, 20, 1200)}`,
  ];
  const shared =
    workload === 'sessions'
      ? ['--turns-per-session=3', '--shared-prefix-ratio=0.5', '--length-spread=0.5']
      : [
          `--prefix-tokens-min=${isRetrieval ? Math.min(least, 8000) : least}`,
          `--prefix-tokens-max=${isRetrieval ? Math.min(4 * least, 8000) : most}`,
          `--prefix-skew=${pick(random, [0, 0.7, 1, 1.5])}`,
        ];
  return { workers, load, flags: [...flags, ...shared] };
}

const sources = new WorkloadSource();

async function play({ workers, load, flags }: Drawn, seed: number, given: Partial<KvRouterConfig>): Promise<Figures> {
  const { settings } = resolveConfig('simulate', flags, {});
  const workload = await sources.open({ ...settings, blockSize: REFERENCE_ENGINE.blockSizeTokens });
  const fleet = { workers, dataParallelSize: 1, engine: REFERENCE_ENGINE };
  const { ttftMs, e2eMs } = summarize(
    simulate({
      ...fleet,
      workload,
      arrivalSpeedup: (load * capacityOf(workload, fleet)) / rateOf(workload),
      kvEventLagMs: 0,
      seed,
      routing: { mode: 'kv', routers: 1, replicaSyncDelayMs: 1, loadAgeMs: 1000, kv: kvRouterConfig(given) },
    }),
  );
  return [ttftMs.mean, ttftMs.p99, e2eMs.mean];
}

async function readLines(path: string): Promise<readonly Line[]> {
  const text = await readFile(path, 'utf8').catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === 'ENOENT') return ''; // the first run makes it
    throw thrown;
  });
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Line]));
}

/** Returns each figure of `stator`, divided by the best one of Dynamo's settings. */
function ratiosOf({ stator, dynamo }: Line): readonly number[] {
  return stator.map((value, figure) => value / Math.min(...dynamo.map((figures) => figures[figure] as number)));
}

function print(lines: readonly Line[]): void {
  const rows = lines.map((line) => ({ line, ratios: ratiosOf(line) }));
  rows.sort((a, b) => Math.max(...b.ratios) - Math.max(...a.ratios));
  for (const { line, ratios } of rows) {
    const { number, workers, load, flags } = line;
    const figures = ratios.map((ratio) => ratio.toFixed(2)).join(' ');
    console.log(`${figures}  #${number}, ${workers} workers, load ${load.toFixed(2)}, ${flags.join(' ')}`);
  }
  const mean = (figure: number): string => {
    const sum = rows.reduce((total, { ratios }) => total + Math.log(ratios[figure] as number), 0);
    return Math.exp(sum / rows.length).toFixed(3);
  };
  const behind = rows.filter(({ ratios }) => ratios.some((ratio) => ratio > 1.02)).length;
  console.log(
    `\nMean TTFT, p99 TTFT and mean E2E of stator, divided by the best of ${SETTINGS.length} settings: geometric mean ${[0, 1, 2].map(mean).join(', ')} over ${rows.length} workloads. More than 2 % behind in a figure: ${behind}.`,
  );
}

const known = new Map((await readLines(out)).map((line) => [line.number, line])); // the last line of a number counts
for (let number = Number(values.from); number < Number(values.to); number++) {
  const before = known.get(number);
  if (before !== undefined && values.only === undefined) continue;
  const drawn = draw(number);
  const seed = number + 1;
  const stator = await play(drawn, seed, { costModel: 'stator' });
  const dynamo: Figures[] = [...(before?.dynamo ?? [])];
  if (before === undefined) for (const setting of SETTINGS) dynamo.push(await play(drawn, seed, setting));
  const line: Line = { number, ...drawn, stator, dynamo };
  known.set(number, line);
  await appendFile(out, `${JSON.stringify(line)}\n`);
  console.error(
    `workload ${number}: ${ratiosOf(line)
      .map((ratio) => ratio.toFixed(2))
      .join(' ')}`,
  );
}
print([...known.values()]);
