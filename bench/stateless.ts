// What functions that hash give beside one resident: prints the table of docs/routing.md.
//   npm run bench:part -- bench/stateless.ts --traces FOLDER
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { kvRouterConfig } from '../shared/router/scheduler/index.ts';
import { parseTrace, type RoutingMode, simulate, summarize, type Workload } from '../shared/simulate/index.ts';
import { makeWorkload, type SyntheticOptions } from '../shared/simulate/synthetic.ts';

const { values } = parseArgs({ options: { traces: { type: 'string', default: '.' } } });

/** The engine of the reference replays; made-up sessions have blocks of 16. */
const ENGINE = {
  numGpuBlocks: 2048,
  blockSizeTokens: 512,
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  enablePrefixCaching: true,
  enableChunkedPrefill: true,
  preemptionMode: 'lifo',
  speedupRatio: 1,
  decodeSpeedupRatio: 1,
} as const;
const FINE = { ...ENGINE, numGpuBlocks: 16_384, blockSizeTokens: 16 };

const SESSIONS: SyntheticOptions = {
  shape: 'sessions',
  sessions: 500,
  turnsPerSession: 5,
  interTurnDelayMs: 5000,
  arrivalIntervalMs: 250,
  burstSize: 1,
  inputTokens: 2048,
  outputTokens: 256,
  lengthSpread: 0.5,
  sharedPrefixRatio: 0.9,
  prefixGroups: 8,
  stretchTokens: 16,
  seed: 1,
};
const LARGE = { ...SESSIONS, sessions: 1000, inputTokens: 4096, prefixGroups: 64, arrivalIntervalMs: 1000 / 9 };
const HERD: SyntheticOptions = {
  ...SESSIONS,
  shape: 'poisson',
  sessions: 6000,
  turnsPerSession: 1,
  arrivalIntervalMs: 2,
  inputTokens: 600,
  lengthSpread: 0,
  sharedPrefixRatio: 208 / 600,
  prefixGroups: 1,
};

interface Row {
  readonly name: string;
  readonly workers: number;
  readonly speedup?: number;
  readonly engine?: typeof FINE;
  readonly workload: () => Workload;
}

function trace(name: string): Workload {
  return parseTrace(gunzipSync(readFileSync(join(values.traces, `mooncake-${name}.jsonl.gz`))).toString(), 512);
}

const ROWS: readonly Row[] = [
  { name: 'conversation trace ×6', workers: 8, speedup: 6, workload: () => trace('conversation') },
  { name: 'conversation trace ×2', workers: 8, speedup: 2, workload: () => trace('conversation') },
  { name: 'synthetic trace ×6', workers: 8, speedup: 6, workload: () => trace('synthetic') },
  { name: 'sessions, varied by half', workers: 8, engine: FINE, workload: () => makeWorkload(SESSIONS) },
  {
    name: 'sessions, not varied',
    workers: 8,
    engine: FINE,
    workload: () => makeWorkload({ ...SESSIONS, lengthSpread: 0 }),
  },
  { name: 'sessions of 4,096 tokens a turn', workers: 32, engine: FINE, workload: () => makeWorkload(LARGE) },
  { name: '500 prompts a second', workers: 32, engine: FINE, workload: () => makeWorkload(HERD) },
];

function play(row: Row, workload: Workload, mode: RoutingMode, routers: number): string {
  const { hitRate, ttftMs } = summarize(
    simulate({
      workload,
      workers: row.workers,
      dataParallelSize: 1,
      engine: row.engine ?? ENGINE,
      arrivalSpeedup: row.speedup ?? 1,
      kvEventLagMs: 0,
      seed: 1,
      routing: {
        mode,
        routers,
        replicaSyncDelayMs: 1,
        loadAgeMs: 1000,
        kv: kvRouterConfig({ costModel: 'stator' }),
      },
    }),
  );
  return `${(100 * hitRate).toFixed(1)} / ${ttftMs.mean.toFixed(0)} / ${ttftMs.p99.toFixed(0)}`;
}

console.log(
  '| Workload | Workers | Round robin | Random | Resident | 50 functions | 500 functions |\n|---|---|---|---|---|---|---|',
);
for (const row of ROWS) {
  const workload = row.workload();
  const cells = [
    play(row, workload, 'round-robin', 1),
    play(row, workload, 'random', 50),
    play(row, workload, 'kv', 1),
    play(row, workload, 'stateless', 50),
    play(row, workload, 'stateless', 500),
  ];
  console.log(`| ${[row.name, row.workers, ...cells].join(' | ')} |`);
}
