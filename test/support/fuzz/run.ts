// npm run fuzz -- [--minutes N] [--cases N] [--seed S] [--keep]
// Plays hostile input against readers in this process, and against every listener of a fleet. It also plays it against
// frontends with hostile brokers and publishers of events, or with hostile workers and a hostile writer of discovery.
// Each failure names the seed that repeats it.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startBrokerSession } from './broker-session.ts';
import type { Health } from './frontend-watch.ts';
import { playListeners } from './listener-rounds.ts';
import { MemoryWatch } from './memory-watch.ts';
import { type PartCase, partOf, playPart } from './parts.ts';
import { startFuzzSession } from './session.ts';

const SEEDS = fileURLToPath(new URL('../../fixtures/fuzz-seeds.json', import.meta.url));
const PART_SHARE = 0.2;
const BROKER_SHARE = 0.2;
const LISTENER_SHARE = 0.3;
const BROKER_ROUNDS = 30;
const ASKED_AT_ONCE = 5;
const BATCH = 25;
/** Most uninterrupted CPU time of one case. The cases of a batch above it are played again one by one. */
const SLICE_CPU_MS_MAX = 50;
/** Most uninterrupted CPU time of a batch, if none of its cases exceeds the limit by itself. */
const BATCH_CPU_MS_MAX = 200;
/**
 * Higher limit, because brokers send megabytes at a time and a new frontend still compiles the code that reads them.
 */
const BROKER_CPU_MS_MAX = 400;
/** High, because other processes on the machine delay the answer. */
const LIVE_MS_MAX = 3000;
const PART_MS_MAX = 50;
const WARM_UP_BATCHES = 40;
const GROWTH_BYTES_MAX = 256 * 1024 * 1024;
const OPEN_FILES_MORE_MAX = 64;
const BROKER_RSS_BYTES_MAX = 512 * 1024 * 1024;

const { values: given } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    cases: { type: 'string' },
    seed: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});
const first = Number(given.seed ?? Date.now() % 2 ** 31);
const casesMax = Number(given.cases ?? Number.POSITIVE_INFINITY);
const fromMs = performance.now();
const untilMs = fromMs + Number(given.minutes) * 60_000;
const failed: { parts: PartCase[]; sessions: number[]; brokers: number[]; listeners: number[] } = {
  parts: [],
  sessions: [],
  brokers: [],
  listeners: [],
};
const failures = (): number => Object.values(failed).reduce((sum, each) => sum + each.length, 0);
const TOLD_MAX = 20;

function tell(what: string, seed: number, error: unknown): void {
  if (failures() < TOLD_MAX)
    console.error(`${what}, seed ${seed}: ${error instanceof Error ? error.stack : String(error)}\n`);
}

function failSession(seed: number, error: unknown): void {
  tell('session', seed, error);
  failed.sessions.push(seed);
}

const partsUntilMs = fromMs + (untilMs - fromMs) * PART_SHARE;
let parts = 0;
let slowest = { ms: 0, seed: first };
const memory = new MemoryWatch();
for (; parts < casesMax && (parts % 1000 !== 0 || performance.now() < partsUntilMs); parts++) {
  memory.note(first + parts);
  const from = process.cpuUsage();
  const drawn = partOf(first + parts);
  try {
    playPart(drawn);
  } catch (error) {
    tell(drawn.part, drawn.seed, error);
    failed.parts.push(drawn);
  }
  const { user, system } = process.cpuUsage(from);
  const ms = (user + system) / 1000;
  if (ms > slowest.ms) slowest = { ms, seed: first + parts };
}
await memory.stop();
console.log(
  `parts: ${parts} cases from seed ${first}; most CPU of one ${slowest.ms.toFixed(1)} ms (seed ${slowest.seed})`,
);
if (slowest.ms > PART_MS_MAX)
  console.log(`  more than ${PART_MS_MAX} ms: play that seed alone (garbage of others may be in it)`);

const brokersUntilMs = fromMs + (untilMs - fromMs) * (PART_SHARE + BROKER_SHARE);
const atBrokers = { sessions: 0, slice: 0, live: 0, rssBytes: 0 };
for (; atBrokers.sessions < casesMax; atBrokers.sessions++) {
  if (atBrokers.sessions > 0 && performance.now() >= brokersUntilMs) break;
  const seed = first + atBrokers.sessions;
  const session = await startBrokerSession(seed);
  try {
    for (let round = 0; round < BROKER_ROUNDS; round++) {
      await Promise.all(Array.from({ length: ASKED_AT_ONCE }, () => session.play()));
    }
    for (const { sliceCpuMs, liveMs, rssBytes } of await session.look()) {
      atBrokers.slice = Math.max(atBrokers.slice, sliceCpuMs);
      atBrokers.live = Math.max(atBrokers.live, liveMs);
      atBrokers.rssBytes = Math.max(atBrokers.rssBytes, rssBytes);
      if (sliceCpuMs > BROKER_CPU_MS_MAX) throw new Error(`a stretch of ${sliceCpuMs.toFixed(0)} ms CPU`);
      if (liveMs > LIVE_MS_MAX) throw new Error(`/live took ${liveMs} ms`);
      if (rssBytes > BROKER_RSS_BYTES_MAX) throw new Error(`${(rssBytes / 2 ** 20).toFixed(0)} MiB of memory`);
    }
  } catch (error) {
    tell('brokers', seed, error);
    failed.brokers.push(seed);
  }
  await session.close();
}
console.log(
  `brokers: ${atBrokers.sessions} sessions; most CPU of the loop at a stretch ${atBrokers.slice.toFixed(0)} ms, ` +
    `longest wait for /live ${atBrokers.live} ms, most memory ${(atBrokers.rssBytes / 2 ** 20).toFixed(0)} MiB`,
);

const listenersUntilMs = fromMs + (untilMs - fromMs) * (PART_SHARE + BROKER_SHARE + LISTENER_SHARE);
const onFailed = (seed: number, error: unknown): void => {
  tell('listeners', seed, error);
  failed.listeners.push(seed);
};
console.log(await playListeners({ first, casesMax, untilMs: listenersUntilMs, onFailed }));

const session = await startFuzzSession(first);
let sessions = 0;
let warm: Health | undefined;
let last: Health = await session.look();
let worst = { slice: 0, live: 0, seed: first };
const atStart = last;
try {
  while (sessions < casesMax && performance.now() < untilMs) {
    const seed = first + sessions;
    const batch = Array.from({ length: Math.min(BATCH, casesMax - sessions) }, (_, at) => seed + at);
    await Promise.all(batch.map((each) => session.play(each).catch((error: unknown) => failSession(each, error))));
    sessions += batch.length;
    last = await session.look();
    if (last.sliceCpuMs > worst.slice) worst = { ...worst, slice: last.sliceCpuMs, seed };
    worst.live = Math.max(worst.live, last.liveMs);
    if (sessions <= WARM_UP_BATCHES * BATCH) warm = last;
    else if (last.sliceCpuMs > SLICE_CPU_MS_MAX) await playEach(batch);
  }
} catch (error) {
  failSession(first + sessions, error);
}

/** Names the cases of a batch that hold the event loop for too long by themselves. */
async function playEach(seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    await session.play(seed).catch(() => {}); // already reported
    const { sliceCpuMs } = await session.look();
    if (sliceCpuMs > SLICE_CPU_MS_MAX)
      failSession(seed, new Error(`alone a stretch of ${sliceCpuMs.toFixed(0)} ms CPU`));
  }
}

const growth = last.rssBytes - (warm ?? last).rssBytes;
console.log(
  `sessions: ${sessions} cases; most CPU of the loop at a stretch ${worst.slice.toFixed(0)} ms (seeds from ${worst.seed})`,
);
const statuses = [...session.statuses].sort().map(([status, count]) => `${status}: ${count}`);
console.log(`  answers ${statuses.join(', ')}`);
console.log(
  `  longest wait for /live ${worst.live} ms; memory grew by ${(growth / 2 ** 20).toFixed(0)} MiB after warm-up`,
);
console.log(`  open files ${atStart.openFiles} at the start, ${last.openFiles} at the end`);
await session.close();
const faults = [
  worst.slice > BATCH_CPU_MS_MAX && sessions > WARM_UP_BATCHES * BATCH
    ? `a stretch of ${worst.slice.toFixed(0)} ms CPU`
    : '',
  worst.live > LIVE_MS_MAX ? `a wait of ${worst.live} ms for /live` : '',
  growth > GROWTH_BYTES_MAX ? 'memory grows' : '',
  last.openFiles - atStart.openFiles > OPEN_FILES_MORE_MAX ? 'connections stay open' : '',
  failures() > 0 ? `${failures()} cases failed` : '',
].filter((fault) => fault !== '');
if (given.keep) {
  const kept = JSON.parse(readFileSync(SEEDS, 'utf8')) as typeof failed;
  const partCases = new Map([...kept.parts, ...failed.parts].map((each) => [`${each.part} ${each.seed}`, each]));
  const sessionSeeds = new Set([...kept.sessions, ...failed.sessions]);
  const brokerSeeds = new Set([...kept.brokers, ...failed.brokers]);
  const listeners = [...new Set([...kept.listeners, ...failed.listeners])];
  const all = { parts: [...partCases.values()], sessions: [...sessionSeeds], brokers: [...brokerSeeds], listeners };
  writeFileSync(SEEDS, `${JSON.stringify(all, null, 2)}\n`);
}
console.log(faults.length === 0 ? 'nothing failed' : `FAILED: ${faults.join('; ')}`);
process.exitCode = faults.length === 0 ? 0 : 1;
