// Plays hostile input against readers in this process, and against a whole frontend with hostile workers and a hostile writer of
// discovery. `npm run fuzz -- [--minutes N] [--cases N] [--seed S] [--keep]`; each failure names the seed that repeats it.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type PartCase, partOf, playPart } from './parts.ts';
import { type Health, startFuzzSession } from './session.ts';

const SEEDS = fileURLToPath(new URL('../../fixtures/fuzz-seeds.json', import.meta.url));
const PART_SHARE = 0.4;
const BATCH = 25;
/** Of one batch. What one case takes alone is found by playing its seed alone. */
const SLICE_CPU_MS_MAX = 50;
const PART_MS_MAX = 50;
const WARM_UP_BATCHES = 40;
const GROWTH_BYTES_MAX = 256 * 1024 * 1024;
const OPEN_FILES_MORE_MAX = 64;

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
const untilMs = performance.now() + Number(given.minutes) * 60_000;
const failed: { parts: PartCase[]; sessions: number[] } = { parts: [], sessions: [] };
const TOLD_MAX = 20;

function tell(what: string, seed: number, error: unknown): void {
  if (failed.parts.length + failed.sessions.length < TOLD_MAX)
    console.error(`${what}, seed ${seed}: ${error instanceof Error ? error.stack : String(error)}\n`);
}

function failSession(seed: number, error: unknown): void {
  tell('session', seed, error);
  failed.sessions.push(seed);
}

const partsUntilMs = performance.now() + (untilMs - performance.now()) * PART_SHARE;
let parts = 0;
let slowest = { ms: 0, seed: first };
for (; parts < casesMax && (parts % 1000 !== 0 || performance.now() < partsUntilMs); parts++) {
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
console.log(
  `parts: ${parts} cases from seed ${first}; most CPU of one ${slowest.ms.toFixed(1)} ms (seed ${slowest.seed})`,
);
if (slowest.ms > PART_MS_MAX)
  console.log(`  more than ${PART_MS_MAX} ms: play that seed alone (garbage of others may be in it)`);

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
  }
} catch (error) {
  failSession(first + sessions, error);
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
  worst.slice > SLICE_CPU_MS_MAX && sessions > WARM_UP_BATCHES * BATCH
    ? `a stretch of ${worst.slice.toFixed(0)} ms CPU`
    : '',
  growth > GROWTH_BYTES_MAX ? 'memory grows' : '',
  last.openFiles - atStart.openFiles > OPEN_FILES_MORE_MAX ? 'connections stay open' : '',
  failed.parts.length + failed.sessions.length > 0
    ? `${failed.parts.length + failed.sessions.length} cases failed`
    : '',
].filter((fault) => fault !== '');
if (given.keep) {
  const kept = JSON.parse(readFileSync(SEEDS, 'utf8')) as typeof failed;
  const partCases = new Map([...kept.parts, ...failed.parts].map((each) => [`${each.part} ${each.seed}`, each]));
  const sessionSeeds = new Set([...kept.sessions, ...failed.sessions]);
  writeFileSync(SEEDS, `${JSON.stringify({ parts: [...partCases.values()], sessions: [...sessionSeeds] }, null, 2)}\n`);
}
console.log(faults.length === 0 ? 'nothing failed' : `FAILED: ${faults.join('; ')}`);
process.exitCode = faults.length === 0 ? 0 : 1;
