// Compares the cost model `stator` with the best settings of Dynamo's formula, row by row, and prints the table of
// docs/simulate.md. Each result is one line of FILE as soon as it is there. A later run leaves out what FILE has.
//   npm run bench:part -- bench/routing-table.ts --out FILE [--set short|full] [--rows TEXT,...] [--seeds 5]
//     [--first 1] [--settings 30] [--only dynamo|stator] [--again stator] [--blind] [--print]
// --rows: rows whose name contains one of the texts. --first: first seed. --again: measures that side once more, for
// example `stator` after a change of its cost model. --blind: all ranks count as equally fast, for a FILE of its own.
// --print: only prints the table.
import { appendFile, readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { resolveConfig } from '../shared/config/index.ts';
import { kvRouterConfig } from '../shared/scheduler/kv-config.ts';
import { RankFactors } from '../shared/scheduler/load/rank-factors.ts';
import { capacityOf, rateOf } from '../shared/simulate/capacity.ts';
import { WorkloadSource } from '../shared/simulate/index.ts';
import type { SimulationOptions } from '../shared/simulate/simulate.ts';
import { measureStator, tuneDynamo } from '../shared/simulate/tune/tune.ts';
import type { Workload } from '../shared/simulate/workload.ts';
import { REFERENCE_ENGINE } from '../test/shared/simulate/simulation-bed.ts';
import { printTable, type ResultLine } from './routing-print.ts';
import { nameOf, ROW_SETS, type RoutingRow } from './routing-rows.ts';

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    set: { type: 'string', default: 'short' },
    rows: { type: 'string', default: '' },
    seeds: { type: 'string', default: '5' },
    first: { type: 'string', default: '1' },
    settings: { type: 'string', default: '30' },
    only: { type: 'string' },
    again: { type: 'string' },
    blind: { type: 'boolean', default: false },
    print: { type: 'boolean', default: false },
  },
});

const SIDES = ['dynamo', 'stator'] as const;
type Side = (typeof SIDES)[number];

if (values.blind) RankFactors.prototype.learn = () => {};

const { out } = values;
if (out === undefined) throw new Error('--out FILE is needed: results go there, and a later run continues from it');
const rowSet = ROW_SETS[values.set as keyof typeof ROW_SETS];
if (rowSet === undefined) throw new Error(`--set ${values.set}: allowed: ${Object.keys(ROW_SETS).join(', ')}`);
const only = sideOf('only', values.only);
const again = sideOf('again', values.again);
const seedCount = wholeOf('seeds', values.seeds);
const firstSeed = wholeOf('first', values.first);
const settingsMax = wholeOf('settings', values.settings);
const texts = values.rows.split(',');
const rows = rowSet().filter((row) => texts.some((text) => nameOf(row).includes(text)));
if (rows.length === 0) throw new Error(`--rows ${values.rows}: no row of the set ${values.set} has such a name`);
/** Results of other seeds are other results. */
const seeds = `${firstSeed}-${firstSeed + seedCount - 1}`;

function wholeOf(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new Error(`--${flag} ${text}: must be a whole number above 0`);
}

function sideOf(flag: string, text: string | undefined): Side | undefined {
  const side = SIDES.find((each) => each === text);
  if (text !== undefined && side === undefined) throw new Error(`--${flag} ${text}: allowed: ${SIDES.join(', ')}`);
  return side;
}

async function readLines(path: string): Promise<ResultLine[]> {
  const text = await readFile(path, 'utf8').catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === 'ENOENT') return ''; // the first run makes it
    throw thrown;
  });
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ResultLine);
}

const sources = new WorkloadSource();

/** As many as a fleet answers in half a minute or more, so that its batches are full for most of the time. */
function requestsOf({ workers }: RoutingRow): number {
  return Math.min(8000, 400 * workers);
}

function openWorkload(row: RoutingRow, seed: number): Promise<Workload> {
  const { workload } = row;
  const isTrace = workload === 'conversation' || workload === 'synthetic';
  const sessions = workload === 'chats' ? Math.ceil(requestsOf(row) / 3) : requestsOf(row);
  const argv = isTrace
    ? [`--trace=test/fixtures/simulate/mooncake-${workload}-1500.jsonl.gz`]
    : [`--workload=${workload}`, `--request-count=${sessions}`, `--seed=${seed}`];
  return sources.open({ ...resolveConfig('simulate', argv, {}).settings, blockSize: REFERENCE_ENGINE.blockSizeTokens });
}

async function simulationOf(row: RoutingRow, seed: number): Promise<SimulationOptions> {
  const workload = await openWorkload(row, seed);
  const fleet = { workers: row.workers, dataParallelSize: 1, engine: REFERENCE_ENGINE, workerSpeeds: row.speeds };
  return {
    ...fleet,
    workload,
    arrivalSpeedup: (row.load * capacityOf(workload, fleet)) / rateOf(workload),
    kvEventLagMs: row.lagMs,
    seed,
    routing: {
      mode: 'kv',
      routers: row.routers,
      replicaSyncDelayMs: row.syncMs,
      loadAgeMs: 1000,
      kv: kvRouterConfig(),
    },
  };
}

function cpuMsSince(started: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(started);
  return (user + system) / 1000;
}

async function measureRow(row: RoutingRow, side: Side): Promise<ResultLine> {
  const started = process.cpuUsage();
  const simulations: SimulationOptions[] = [];
  for (let seed = firstSeed; seed < firstSeed + seedCount; seed++) simulations.push(await simulationOf(row, seed));
  const about = { row: nameOf(row), seeds };
  if (side === 'stator') return { ...about, side, result: measureStator(simulations), cpuMs: cpuMsSince(started) };
  const result = await tuneDynamo({ simulations, settingsMax });
  return { ...about, side, result, cpuMs: cpuMsSince(started) };
}

const lines = await readLines(out);
const sides = SIDES.filter((side) => only === undefined || side === only);
const wanted = values.print
  ? []
  : rows.flatMap((row) =>
      sides
        .filter(
          (side) =>
            side === again ||
            !lines.some((line) => line.row === nameOf(row) && line.side === side && line.seeds === seeds),
        )
        .map((side) => ({ row, side })),
    );
for (const [at, { row, side }] of wanted.entries()) {
  const line = await measureRow(row, side);
  lines.push(line);
  await appendFile(out, `${JSON.stringify(line)}\n`);
  console.error(`${at + 1} of ${wanted.length}: ${line.row} ${side}, ${(line.cpuMs / 1000).toFixed(1)} s of CPU time`);
}
printTable(
  rows,
  lines.filter((line) => line.seeds === seeds),
);
