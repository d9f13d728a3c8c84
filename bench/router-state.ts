// Packing fleet items and keeping counters, in process CPU time. Run by itself:
//   npm run bench:part -- bench/router-state.ts
import { seededRandom, VirtualClock } from '../shared/clock/index.ts';
import { chooseByRendezvous } from '../shared/router/scheduler/rendezvous.ts';
import { dealIntoCells, packFleetCell, unpackFleetCell } from '../shared/router/state/fleet-item.ts';
import {
  CounterReporter,
  type FleetWorker,
  MemoryRouterStateHub,
  ReservationLedger,
} from '../shared/router/state/index.ts';

const POOL = { namespace: 'ns', component: 'backend', endpoint: 'generate' };
const ONE = { requests: 1, decodeBlocks: 10, prefillTokens: 100 };
const nowMs = 1_700_000_000_000;

function someWorkers(count: number): FleetWorker[] {
  return Array.from({ length: count }, (_, at) => {
    const id = (0x10_0000_0000 + at * 7919).toString(16);
    return {
      id,
      address: `10.0.${(at >> 8) & 255}.${at & 255}:9345/${id}/ns/backend/generate`,
      aliveUntilMs: nowMs + 9000,
      isAvailable: true,
      load: { requests: at % 50, decodeBlocks: at, prefillTokens: 3 * at },
      kvUsedShare: 0.2,
      dataParallelStartRank: 0,
      dataParallelSize: 1,
    };
  });
}

function measure(name: string, times: number, work: () => void): void {
  for (let at = 0; at < Math.min(times, 50); at++) work();
  const before = process.cpuUsage();
  for (let at = 0; at < times; at++) work();
  const { user, system } = process.cpuUsage(before);
  console.log(`${name.padEnd(52)} ${((user + system) / times).toFixed(1).padStart(10)} us`);
}

const workers = someWorkers(256);
const cell = { cells: 1, copies: 1, rewriteMs: 5000, workers };
const packed = packFleetCell(cell, nowMs);
console.log(`cell of 256 workers: ${packed.length} bytes, ${(packed.length / 256).toFixed(1)} a worker`);
measure('pack a cell of 256 workers', 500, () => void packFleetCell(cell, nowMs));
measure('unpack a cell of 256 workers', 500, () => void unpackFleetCell(packed, nowMs));
const fleet = someWorkers(10_000);
measure('deal 10,000 workers into cells', 20, () => void dealIntoCells(fleet, 64));
const loads = workers.map(({ id, load }) => ({ id, load: load.requests }));
let prefix = 0;
measure('choose one of 256 workers by rendezvous', 5000, () => void chooseByRendezvous([prefix++, 7], loads));

const clock = new VirtualClock();
const random = seededRandom(1);
const hub = new MemoryRouterStateHub(clock);
const common = { pool: POOL, clock, random, onProblem: (problem: unknown) => console.error(problem) };
let running = 0;
const reporter = new CounterReporter({
  ...common,
  state: hub.open(),
  workerId: 'a1',
  read: () => [{ dpRank: 0, active: { ...ONE, requests: running }, kvUsedBlocks: running }],
});
reporter.start();
await clock.advance(10);
const ledger = new ReservationLedger({ ...common, state: hub.open(), gatherMs: 1000 });
const rank = { workerId: 'a1', dpRank: 0 };
measure('reserve and count the arrival of one request', 100_000, () => {
  ledger.reserve(rank, ONE);
  reporter.arrived(0, ONE);
});
const SECONDS = 2000;
const before = process.cpuUsage();
for (let second = 0; second < SECONDS; second++) {
  running = second % 7;
  await clock.advance(1000);
}
const { user, system } = process.cpuUsage(before);
console.log(
  `${'one second of one reporting rank (clock included)'.padEnd(52)} ${((user + system) / SECONDS).toFixed(1).padStart(10)} us`,
);
await reporter.stop(0);
