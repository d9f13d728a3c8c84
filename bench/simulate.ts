// Replays the reference rows in the simulator and prints the tables of docs/simulate.md.
//   npm run bench:part -- bench/simulate.ts --traces FOLDER [--only rr,default,best,stator,lag,routers] [--rows
//   conversation-x1-n4,...] [--seeds N]
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import type { KvRouterConfig } from '../shared/scheduler/index.ts';
import { kvRouterConfig } from '../shared/scheduler/kv-config.ts';
import { simulate } from '../shared/simulate/index.ts';
import type { RoutingMode } from '../shared/simulate/routers.ts';
import { type Summary, summarize } from '../shared/simulate/summary.ts';
import { parseTrace } from '../shared/simulate/trace.ts';
import type { Workload } from '../shared/simulate/workload.ts';
import { REFERENCE_ENGINE } from '../test/shared/simulate/simulation-bed.ts';
import { type Figures, type ReferenceRow, ROWS, STATOR_ROWS } from './simulate-rows.ts';

const { values } = parseArgs({
  options: {
    traces: { type: 'string', default: '.' },
    only: { type: 'string', default: 'rr,default,best,stator' },
    rows: { type: 'string' },
    seeds: { type: 'string', default: '3' },
  },
});
const seeds = Number(values.seeds);
const wanted = values.rows?.split(',');

interface Setting {
  readonly mode: RoutingMode;
  readonly kv?: Partial<KvRouterConfig>;
  readonly kvEventLagMs?: number;
  readonly routers?: number;
}

const traces = new Map<string, Workload>();

async function openTrace(name: string): Promise<Workload> {
  const known = traces.get(name);
  if (known !== undefined) return known;
  const bytes = await readFile(join(values.traces, `mooncake-${name}.jsonl.gz`));
  const workload = parseTrace(gunzipSync(bytes).toString(), 512);
  traces.set(name, workload);
  return workload;
}

/** One run for each seed. Round robin draws nothing, so one is enough. */
async function replay(row: ReferenceRow, setting: Setting): Promise<readonly Summary[]> {
  const workload = await openTrace(row.trace);
  const runs = setting.mode === 'round-robin' ? 1 : seeds;
  return Array.from({ length: runs }, (_, seed) =>
    summarize(
      simulate({
        workload,
        workers: row.workers,
        dataParallelSize: 1,
        engine: REFERENCE_ENGINE,
        arrivalSpeedup: row.speedup,
        kvEventLagMs: setting.kvEventLagMs ?? 0,
        seed: seed + 1,
        routing: {
          mode: setting.mode,
          routers: setting.routers ?? 1,
          replicaSyncDelayMs: 1,
          loadAgeMs: 1000,
          kv: kvRouterConfig({ queueThreshold: undefined, ...setting.kv }),
        },
      }),
    ),
  );
}

function figuresOf(runs: readonly Summary[]): Figures {
  const mean = (of: (run: Summary) => number): number => runs.reduce((sum, run) => sum + of(run), 0) / runs.length;
  return [
    mean(({ hitRate }) => 100 * hitRate),
    mean(({ ttftMs }) => ttftMs.mean),
    mean(({ ttftMs }) => ttftMs.p50),
    mean(({ ttftMs }) => ttftMs.p90),
    mean(({ ttftMs }) => ttftMs.p99),
  ];
}

function cells([hits, ...times]: Figures): string {
  return [hits.toFixed(1), ...times.map((ms) => ms.toFixed(0))].join(' / ');
}

/** Range of the mean TTFT over the seeds, as a share of its mean. */
function spread(runs: readonly Summary[]): number {
  const means = runs.map(({ ttftMs }) => ttftMs.mean);
  return (Math.max(...means) - Math.min(...means)) / (means.reduce((sum, mean) => sum + mean, 0) / means.length);
}

function percent(share: number): string {
  return `${share >= 0 ? '+' : ''}${(100 * share).toFixed(1)} %`;
}

function nameOf({ trace, speedup, workers }: ReferenceRow): string {
  return `${trace} ×${speedup} | ${workers}`;
}

async function compare(
  title: string,
  settingOf: (row: ReferenceRow) => Setting,
  referenceOf: (row: ReferenceRow) => Figures | undefined,
): Promise<void> {
  console.log(
    `\n### ${title}\n\n| Trace | n | reference | simulate | mean TTFT | hits | spread |\n|---|---|---|---|---|---|---|`,
  );
  for (const row of ROWS) {
    const reference = referenceOf(row);
    if (reference === undefined || !(wanted?.includes(`${row.trace}-x${row.speedup}-n${row.workers}`) ?? true))
      continue;
    const runs = await replay(row, settingOf(row));
    const ours = figuresOf(runs);
    const hits = `${(ours[0] - reference[0]).toFixed(1)} points`;
    console.log(
      `| ${nameOf(row)} | ${cells(reference)} | ${cells(ours)} | ${percent(ours[1] / reference[1] - 1)} | ${hits} | ${percent(spread(runs)).slice(1)} |`,
    );
  }
}

/** The stator model beside Dynamo's formula under the same conditions. */
async function compareModels(title: string, conditions: Partial<Setting>): Promise<void> {
  console.log(
    `\n### ${title}\n\n| Trace | n | dynamo | dynamo, best setting | stator | stator to the better one |\n|---|---|---|---|---|---|`,
  );
  for (const row of ROWS) {
    if (!(wanted?.includes(`${row.trace}-x${row.speedup}-n${row.workers}`) ?? true)) continue;
    const settings = [{}, row.bestSetting, STATOR].map((kv): Setting => ({ mode: 'kv', ...conditions, kv }));
    const [dynamo, best, stator] = await Promise.all(
      settings.map(async (setting) => figuresOf(await replay(row, setting))),
    );
    const ratio = stator![1] / Math.min(dynamo![1], best![1]) - 1;
    console.log(`| ${nameOf(row)} | ${cells(dynamo!)} | ${cells(best!)} | ${cells(stator!)} | ${percent(ratio)} |`);
  }
}

const STATOR: Partial<KvRouterConfig> = { costModel: 'stator', queueThreshold: 'auto' };
const TABLES: Readonly<Record<string, () => Promise<void>>> = {
  rr: () =>
    compare(
      'Round robin',
      () => ({ mode: 'round-robin' }),
      (row) => row.roundRobin,
    ),
  default: () =>
    compare(
      'kv, default weights',
      () => ({ mode: 'kv' }),
      (row) => row.kvDefault,
    ),
  best: () =>
    compare(
      'kv, best setting of Dynamo',
      (row) => ({ mode: 'kv', kv: row.bestSetting }),
      (row) => row.kvBest,
    ),
  stator: () =>
    compare(
      'kv, cost model stator',
      () => ({ mode: 'kv', kv: STATOR }),
      (row) => STATOR_ROWS.get(row),
    ),
  lag: () => compareModels('Events 20 ms late', { kvEventLagMs: 20 }),
  routers: () => compareModels('Two routers that share their state', { routers: 2 }),
};

console.log(`Cells: hit % / TTFT mean / p50 / p90 / p99 in ms; ${seeds} seeds a row.`);
for (const name of values.only.split(',')) {
  const table = TABLES[name];
  if (table === undefined) throw new Error(`--only ${name}: allowed: ${Object.keys(TABLES).join(', ')}`);
  const started = process.cpuUsage();
  await table();
  const { user, system } = process.cpuUsage(started);
  console.log(`\n${((user + system) / 1e6).toFixed(0)} s of CPU time.`);
}
