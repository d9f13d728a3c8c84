// Compares functions that hash, and ask workers, with resident routers: prints the table of docs/routing.md.
//   npm run bench:part -- bench/stateless.ts --traces FOLDER [--rows TEXT]
// --rows: only rows whose name contains the text.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { resolveConfig } from '../shared/config/index.ts';
import { capacityOf, rateOf } from '../shared/simulate/capacity.ts';
import { simulate, WorkloadSource } from '../shared/simulate/index.ts';
import type { RoutingOptions } from '../shared/simulate/routers.ts';
import { summarize } from '../shared/simulate/summary.ts';
import { makeWorkload } from '../shared/simulate/synthetic.ts';
import { parseTrace } from '../shared/simulate/trace.ts';
import type { Workload } from '../shared/simulate/workload.ts';
import {
  FINE_ENGINE,
  herd,
  options,
  REFERENCE_ENGINE,
  routersOf,
  SHARED_SESSIONS,
} from '../test/shared/simulate/simulation-bed.ts';

const { values } = parseArgs({
  options: { traces: { type: 'string', default: '.' }, rows: { type: 'string', default: '' } },
});

const LARGE = { ...SHARED_SESSIONS, sessions: 1000, inputTokens: 4096, prefixGroups: 64, arrivalIntervalMs: 1000 / 9 };

interface Row {
  readonly name: string;
  readonly workers: number;
  readonly speedup?: number;
  /** Requests as a share of the fleet's capacity, in place of a speed-up. */
  readonly load?: number;
  readonly engine?: typeof FINE_ENGINE;
  readonly workload: () => Workload | Promise<Workload>;
}

function trace(name: string): Workload {
  return parseTrace(gunzipSync(readFileSync(join(values.traces, `mooncake-${name}.jsonl.gz`))).toString(), 512);
}

const sources = new WorkloadSource();

/** Makes a workload of `stator simulate` with 3,200 requests. */
function made(workload: 'agents' | 'tenants' | 'retrieval' | 'chats', firstTurns = 3200): Promise<Workload> {
  const argv = [`--workload=${workload}`, `--request-count=${firstTurns}`];
  return sources.open({ ...resolveConfig('simulate', argv, {}).settings, blockSize: REFERENCE_ENGINE.blockSizeTokens });
}

const ROWS: readonly Row[] = [
  { name: 'conversation trace ×6', workers: 8, speedup: 6, workload: () => trace('conversation') },
  { name: 'conversation trace ×2', workers: 8, speedup: 2, workload: () => trace('conversation') },
  { name: 'synthetic trace ×6', workers: 8, speedup: 6, workload: () => trace('synthetic') },
  { name: 'conversation trace ×24', workers: 32, speedup: 24, workload: () => trace('conversation') },
  { name: 'sessions, varied by half', workers: 8, engine: FINE_ENGINE, workload: () => makeWorkload(SHARED_SESSIONS) },
  {
    name: 'sessions, not varied',
    workers: 8,
    engine: FINE_ENGINE,
    workload: () => makeWorkload({ ...SHARED_SESSIONS, lengthSpread: 0 }),
  },
  { name: 'sessions of 4,096 tokens a turn', workers: 32, engine: FINE_ENGINE, workload: () => makeWorkload(LARGE) },
  { name: 'agents, load 0.5', workers: 8, load: 0.5, workload: () => made('agents') },
  { name: 'agents, load 0.8', workers: 8, load: 0.8, workload: () => made('agents') },
  { name: 'tenants, load 0.8', workers: 8, load: 0.8, workload: () => made('tenants') },
  { name: 'retrieval, load 0.8', workers: 8, load: 0.8, workload: () => made('retrieval') },
  { name: 'chats, load 0.8', workers: 8, load: 0.8, workload: () => made('chats', 1067) },
  { name: '500 prompts a second', workers: 32, engine: FINE_ENGINE, workload: () => herd(6000, 392, 2) },
];

function play(
  { workers, engine = REFERENCE_ENGINE, ...row }: Row,
  workload: Workload,
  routing: RoutingOptions,
): string {
  const { load, speedup = 1 } = row;
  const fleet = { workers, dataParallelSize: 1, engine };
  const arrivalSpeedup = load === undefined ? speedup : (load * capacityOf(workload, fleet)) / rateOf(workload);
  const { hitRate, ttftMs } = summarize(simulate(options({ ...fleet, workload, arrivalSpeedup, routing })));
  return `${(100 * hitRate).toFixed(1)} / ${ttftMs.mean.toFixed(0)} / ${ttftMs.p99.toFixed(0)}`;
}

const HEAD = [
  'Workload',
  'Workers',
  'Round robin',
  'Random',
  'Resident',
  '50 residents',
  '50 that ask',
  '50 that ask 8',
  '500 that ask',
  '50 that hash',
  '500 that hash',
];
/** Milliseconds until a resident router knows what another one decided. */
const REPLICA_SYNC_MS = 5;
console.log(`| ${HEAD.join(' | ')} |\n${'|---'.repeat(HEAD.length)}|`);
for (const row of ROWS.filter(({ name }) => name.includes(values.rows))) {
  const workload = await row.workload();
  const cells = [
    routersOf('round-robin', 1),
    routersOf('random', 50),
    routersOf('kv', 1),
    { ...routersOf('kv', 50), replicaSyncDelayMs: REPLICA_SYNC_MS },
    routersOf('stateless', 50),
    routersOf('stateless', 50, 8),
    routersOf('stateless', 500),
    routersOf('stateless', 50, 0),
    routersOf('stateless', 500, 0),
  ].map((routing) => play(row, workload, routing));
  console.log(`| ${[row.name, row.workers, ...cells].join(' | ')} |`);
}
