import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { LoopReport } from '../loop-probe.ts';
import { residentMiB, waitUntil } from '../processes.ts';
import { median } from './alternate.ts';
import { askUnary, forgetPeak, messageOf } from './load.ts';
import { type KserveSide, type KserveSideOptions, startKserveSide } from './sides.ts';

/** Cost of a large tensor; medians of five. */
export interface LargeEcho {
  /** Most memory while it is under way, in its own size. */
  readonly copies: number;
  /** Most CPU of the event loop at a stretch. */
  readonly sliceMs: number;
  /** Longest time that another request took meanwhile. */
  readonly otherMs: number;
}

const BYTES = 64 << 20;
const MEBIBYTE = 1 << 20;
const ROUNDS = 5;

/** A tensor of 64 MiB there and back, while others are answered. */
export async function echoLarge(options: KserveSideOptions): Promise<LargeEcho> {
  const probeFile = join(process.cwd(), 'node_modules/.cache/stator/kserve-probe.json');
  const env = {
    STATOR_GRPC_MAX_MESSAGE_MB: '128',
    STATOR_HTTP_ANSWER_LIMIT_MB: '256',
    DYN_TCP_MAX_MESSAGE_SIZE: String(128 << 20),
    STATOR_BENCH_PROBE: probeFile,
    NODE_OPTIONS: `--import=${join(process.cwd(), 'dist/bench-loop-probe.js')}`,
  };
  const side = await startKserveSide('stator', { ...options, model: 'echo', env });
  try {
    const large = messageOf('echo', { tensor: Buffer.alloc(BYTES, 1) });
    const small = messageOf('echo');
    for (let round = 0; round < 500; round++) await ask(side, small);
    const before = residentMiB(side.pid);
    for (let round = 0; round < 3; round++) await ask(side, large);
    const figures: LargeEcho[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      figures.push(await echoOne(side, large, before, probeFile));
    }
    return {
      copies: median(figures.map(({ copies }) => copies)),
      sliceMs: median(figures.map(({ sliceMs }) => sliceMs)),
      otherMs: median(figures.map(({ otherMs }) => otherMs)),
    };
  } finally {
    await side.stop();
  }
}

async function echoOne(side: KserveSide, large: Buffer, before: number, probeFile: string): Promise<LargeEcho> {
  await probeOf(side.pid, probeFile);
  forgetPeak(side.pid);
  let isOver = false;
  let otherMs = 0;
  const others = (async () => {
    while (!isOver) {
      const fromMs = performance.now();
      await askUnary(side.client, 'ServerLive', Buffer.alloc(0));
      otherMs = Math.max(otherMs, performance.now() - fromMs);
    }
  })();
  await ask(side, large);
  isOver = true;
  await others;
  const { sliceCpuMs } = await probeOf(side.pid, probeFile);
  const copies = ((residentMiB(side.pid, 'VmHWM') - before) * MEBIBYTE) / BYTES;
  return { copies, sliceMs: sliceCpuMs, otherMs };
}

async function ask({ client }: KserveSide, message: Buffer): Promise<void> {
  if ((await askUnary(client, 'ModelInfer', message)) === undefined) throw new Error('ModelInfer failed');
}

/** Returns the report of the process since the previous one. */
async function probeOf(pid: number, file: string): Promise<LoopReport> {
  await rm(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  let report: LoopReport | undefined;
  await waitUntil('the probe', 10_000, async () => {
    try {
      report = JSON.parse(readFileSync(file, 'utf8')) as LoopReport;
      return true;
    } catch {
      return false; // not written yet
    }
  });
  if (report === undefined) throw new Error('no report');
  return report;
}
