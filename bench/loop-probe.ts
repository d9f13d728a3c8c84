// Loaded into a frontend with `node --import`: measures how much CPU its event loop takes without a break.
// Between two ticks of a timer the loop runs at least one slice of work. So the most CPU that the loop's thread took
// between two ticks bounds its longest slice from above, to a tick of the kernel's clock (4 ms); other processes do not
// count. SIGUSR2 writes the figures since the previous signal to the file named by STATOR_BENCH_PROBE.
import { openSync, readSync, renameSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

/** Figures of the probe since the previous report, in milliseconds. */
export interface LoopReport {
  /** Most CPU of the loop's thread between two ticks. */
  readonly sliceCpuMs: number;
  /** Longest time between two ticks: a slice, or other processes that had the core. */
  readonly gapMs: number;
  readonly ticks: number;
}

const TICK_MS = 2;
const LINE_BYTES = 128;

function probe(file: string): void {
  const schedstat = openSync('/proc/thread-self/schedstat', 'r');
  const line = Buffer.alloc(LINE_BYTES);
  /** Nanoseconds on a core since the thread began. */
  const cpuNs = (): number =>
    Number.parseInt(line.toString('latin1', 0, readSync(schedstat, line, 0, LINE_BYTES, 0)), 10);
  let lastCpuNs = cpuNs();
  let lastMs = performance.now();
  let seen = { sliceCpuMs: 0, gapMs: 0, ticks: 0 };
  setInterval(() => {
    const nowCpuNs = cpuNs();
    const nowMs = performance.now();
    seen.sliceCpuMs = Math.max(seen.sliceCpuMs, (nowCpuNs - lastCpuNs) / 1e6);
    seen.gapMs = Math.max(seen.gapMs, nowMs - lastMs);
    seen.ticks++;
    lastCpuNs = nowCpuNs;
    lastMs = nowMs;
  }, TICK_MS).unref();
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.new`, JSON.stringify(seen satisfies LoopReport));
    renameSync(`${file}.new`, file);
    seen = { sliceCpuMs: 0, gapMs: 0, ticks: 0 };
  });
}

const file = process.env.STATOR_BENCH_PROBE;
if (isMainThread && file !== undefined) probe(file);
