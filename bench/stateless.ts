// What functions that hash, and ask workers, give beside one resident: prints the table of docs/routing.md.
//   npm run bench:part -- bench/stateless.ts --traces FOLDER
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { simulate } from '../shared/simulate/index.ts';
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

const { values } = parseArgs({ options: { traces: { type: 'string', default: '.' } } });

const LARGE = { ...SHARED_SESSIONS, sessions: 1000, inputTokens: 4096, prefixGroups: 64, arrivalIntervalMs: 1000 / 9 };

interface Row {
  readonly name: string;
  readonly workers: number;
  readonly speedup?: number;
  readonly engine?: typeof FINE_ENGINE;
  readonly workload: () => Workload;
}

function trace(name: string): Workload {
  return parseTrace(gunzipSync(readFileSync(join(values.traces, `mooncake-${name}.jsonl.gz`))).toString(), 512);
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
  { name: '500 prompts a second', workers: 32, engine: FINE_ENGINE, workload: () => herd(6000, 392, 2) },
];

function play(row: Row, workload: Workload, routing: RoutingOptions): string {
  const { hitRate, ttftMs } = summarize(
    simulate(
      options({
        workload,
        workers: row.workers,
        engine: row.engine ?? REFERENCE_ENGINE,
        arrivalSpeedup: row.speedup ?? 1,
        routing,
      }),
    ),
  );
  return `${(100 * hitRate).toFixed(1)} / ${ttftMs.mean.toFixed(0)} / ${ttftMs.p99.toFixed(0)}`;
}

const HEAD = ['Workload', 'Workers', 'Round robin', 'Random', 'Resident', '50 that ask', '500', '50 that hash', '500'];
console.log(`| ${HEAD.join(' | ')} |\n${'|---'.repeat(HEAD.length)}|`);
for (const row of ROWS) {
  const workload = row.workload();
  const cells = [
    routersOf('round-robin', 1),
    routersOf('random', 50),
    routersOf('kv', 1),
    routersOf('stateless', 50),
    routersOf('stateless', 500),
    routersOf('stateless', 50, 0),
    routersOf('stateless', 500, 0),
  ].map((routing) => play(row, workload, routing));
  console.log(`| ${[row.name, row.workers, ...cells].join(' | ')} |`);
}
