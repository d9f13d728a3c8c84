// npm run bench:part -- bench/kserve.ts [--dynamo FOLDER] [--only unary,burst,...] [--seconds N] [--json]
// KServe by gRPC: CPU of the frontend's process beside a real Dynamo and a bare grpc-js server, memory, start, large tensors.
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { askStream, askUnary, forgetPeak, loadFor, memoryMiB, messageOf, SERVICE } from './kserve/load.ts';
import { type KserveSide, type KserveSideOptions, type SideName, startKserveSide } from './kserve/sides.ts';
import type { LoopReport } from './loop-probe.ts';
import { waitUntil } from './processes.ts';

const { values } = parseArgs({
  options: {
    dynamo: { type: 'string', default: process.env.STATOR_BENCH_DYNAMO ?? '' },
    model: { type: 'string' },
    only: { type: 'string' },
    seconds: { type: 'string', default: '10' },
    json: { type: 'boolean', default: false },
    floor: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const dynamoFolder = values.dynamo === '' ? undefined : values.dynamo;
const modelFolder = values.model ?? (dynamoFolder === undefined ? 'dist/builtin-model' : join(dynamoFolder, 'model'));
const base = { modelFolder, dynamoFolder, maxTokens: 16, speedup: 1_000_000, model: 'bench' as const };
const AT_ONCE = 16;

interface Row {
  readonly name: string;
  readonly unit: string;
  readonly values: Readonly<Partial<Record<SideName, number>>>;
  /** Against Dynamo. */
  readonly ratioMax?: number;
  /** Against the floor. */
  readonly floorMax?: number;
  readonly max?: number;
}

const rows: Row[] = [];

async function measured(
  sides: readonly SideName[],
  options: KserveSideOptions,
  measure: (side: KserveSide) => Promise<number>,
): Promise<Partial<Record<SideName, number>>> {
  const figures: Partial<Record<SideName, number>> = {};
  for (const name of sides) {
    if (name === 'dynamo' && dynamoFolder === undefined) continue;
    const side = await startKserveSide(name, options);
    try {
      figures[name] = await measure(side);
    } finally {
      await side.stop();
    }
  }
  return figures;
}

/** Microseconds of CPU for each unit, the least of three rounds after a warm-up of as many. */
const perUnit =
  (count: number, ask: (side: KserveSide) => Promise<number>) =>
  async (side: KserveSide): Promise<number> => {
    const load = { atOnce: AT_ONCE, count, seconds, ask: () => ask(side) };
    await loadFor(side.pid, { ...load, count: 3 * count, seconds: 2 * seconds });
    const rounds: number[] = [];
    for (let round = 0; round < 3; round++) {
      const { cpuMs, units } = await loadFor(side.pid, load);
      rounds.push((cpuMs * 1000) / units);
    }
    return Math.min(...rounds);
  };

const unary =
  (rpc: string, message: Buffer) =>
  async ({ client }: KserveSide): Promise<number> => {
    if ((await askUnary(client, rpc, message)) === undefined) throw new Error(`${rpc} failed`);
    return 1;
  };

const stream =
  (message: Buffer) =>
  ({ client }: KserveSide): Promise<number> =>
    askStream(client, message);

/** What a thousand streams at a real pace take, each. */
async function memoryOfStreams(side: KserveSide): Promise<number> {
  const streams = 1000;
  const message = messageOf('bench', { maxTokens: 200, isStream: true });
  const wave = (): Promise<unknown> =>
    Promise.all(Array.from({ length: streams }, () => askStream(side.client, message)));
  await wave(); // the heap has its size
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const before = memoryMiB(side.pid);
  forgetPeak(side.pid);
  await wave();
  return ((memoryMiB(side.pid, 'VmHWM') - before) * 1024) / streams;
}

interface LargeEcho {
  readonly copies: number;
  readonly sliceMs: number;
  readonly otherMs: number;
}

/** A tensor of 64 MiB there and back, while others are answered. */
async function echoLarge(probeFile: string): Promise<LargeEcho> {
  const bytes = 64 << 20;
  const large = messageOf('echo', { tensor: Buffer.alloc(bytes, 1) });
  const env = {
    STATOR_GRPC_MAX_MESSAGE_MB: '128',
    STATOR_HTTP_ANSWER_LIMIT_MB: '256',
    DYN_TCP_MAX_MESSAGE_SIZE: String(128 << 20),
    STATOR_BENCH_PROBE: probeFile,
    NODE_OPTIONS: `--import=${join(process.cwd(), 'dist/bench-loop-probe.js')}`,
  };
  const side = await startKserveSide('stator', { ...base, model: 'echo', env });
  try {
    const one = unary('ModelInfer', large);
    const small = messageOf('echo');
    for (let round = 0; round < 500; round++) await unary('ModelInfer', small)(side);
    const before = memoryMiB(side.pid);
    for (let round = 0; round < 3; round++) await one(side);
    const figures: LargeEcho[] = [];
    for (let round = 0; round < 5; round++) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
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
      await one(side);
      isOver = true;
      await others;
      const { sliceCpuMs } = await probeOf(side.pid, probeFile);
      const copies = (memoryMiB(side.pid, 'VmHWM') - before) / 64;
      figures.push({ copies, sliceMs: sliceCpuMs, otherMs });
    }
    const median = (of: (figure: LargeEcho) => number): number =>
      figures.map(of).sort((a, b) => a - b)[2] ?? Number.NaN;
    return {
      copies: median(({ copies }) => copies),
      sliceMs: median(({ sliceMs }) => sliceMs),
      otherMs: median(({ otherMs }) => otherMs),
    };
  } finally {
    await side.stop();
  }
}

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

const MEASURES: Readonly<Record<string, () => Promise<readonly Row[]>>> = {
  live: async () => {
    const ask = perUnit(4000, unary('ServerLive', Buffer.alloc(0)));
    const options = { ...base, model: 'echo' as const };
    const figures = await measured(['stator', 'dynamo', 'floor'], options, ask);
    return [{ name: 'ServerLive, CPU', unit: 'us', values: figures, floorMax: 1.3 }];
  },
  tensor: async () => {
    const ask = perUnit(2000, unary('ModelInfer', messageOf('echo')));
    const options = { ...base, model: 'echo' as const };
    return [
      {
        name: 'INT32[16] echo, CPU',
        unit: 'us',
        values: await measured(['stator', 'dynamo'], options, ask),
        ratioMax: 0.7,
      },
    ];
  },
  unary: async () => {
    const ask = perUnit(1000, unary('ModelInfer', messageOf('bench', { maxTokens: 16 })));
    return [
      { name: '16 tokens, CPU', unit: 'us', values: await measured(['stator', 'dynamo'], base, ask), ratioMax: 0.6 },
    ];
  },
  burst: async () => {
    const ask = perUnit(300, stream(messageOf('bench', { maxTokens: 200, isStream: true })));
    const figures = await measured(['stator', 'dynamo'], { ...base, maxTokens: 200 }, ask);
    return [{ name: 'burst, CPU a token', unit: 'us', values: figures, ratioMax: 0.9 }];
  },
  paced: async () => {
    const ask = perUnit(48, stream(messageOf('bench', { maxTokens: 200, isStream: true })));
    const figures = await measured(['stator', 'dynamo'], { ...base, maxTokens: 200, speedup: 1 }, ask);
    return [{ name: 'paced, CPU a token', unit: 'us', values: figures, ratioMax: 0.6 }];
  },
  streams: async () => {
    const figures = await measured(['stator'], { ...base, speedup: 1 }, memoryOfStreams);
    return [{ name: '1,000 streams, each', unit: 'KiB', values: figures, max: 60 }];
  },
  start: async () => {
    const ready: number[] = [];
    const idle: number[] = [];
    for (let round = 0; round < 3; round++) {
      await measured(['stator'], base, async (side) => {
        ready.push(side.readyMs);
        await new Promise((resolve) => setTimeout(resolve, 2000));
        idle.push(memoryMiB(side.pid));
        return 0;
      });
    }
    const median = (all: number[]): number => all.sort((a, b) => a - b)[1] ?? Number.NaN;
    return [
      { name: 'start to first answer', unit: 'ms', values: { stator: median(ready) }, max: 1000 },
      { name: 'idle memory', unit: 'MiB', values: { stator: median(idle) }, max: 120 },
    ];
  },
  large: async () => {
    const { copies, sliceMs, otherMs } = await echoLarge(
      join(process.cwd(), 'node_modules/.cache/stator/kserve-probe.json'),
    );
    return [
      { name: '64 MiB echo, copies', unit: '', values: { stator: copies }, max: 3 },
      { name: '64 MiB echo, slice', unit: 'ms', values: { stator: sliceMs }, max: 20 },
      { name: '64 MiB echo, others wait', unit: 'ms', values: { stator: otherMs } },
    ];
  },
};

function verdictOf({ values: { stator = Number.NaN, dynamo, floor }, ratioMax, floorMax, max }: Row): string {
  const against = (other: number | undefined, most: number | undefined, name: string): string => {
    if (other === undefined || most === undefined) return '';
    const ratio = stator / other;
    return `${ratio.toFixed(2)} x ${name}, ${ratio <= most ? 'holds' : 'MISSED'} (at most ${most})`;
  };
  if (max !== undefined) return `${stator <= max ? 'holds' : 'MISSED'} (at most ${max})`;
  return [against(dynamo, ratioMax, 'Dynamo'), against(floor, floorMax, 'the floor')]
    .filter((text) => text !== '')
    .join('; ');
}

function note(row: Row): void {
  rows.push(row);
  const cell = (name: SideName): string => (row.values[name]?.toFixed(2) ?? '-').padStart(9);
  console.log(
    `${`${row.name} ${row.unit}`.padEnd(30)} ${cell('stator')} ${cell('dynamo')} ${cell('floor')}  ${verdictOf(row)}`,
  );
}

/** The least that a gRPC server on Node does: says what it was told. */
function serveFloor(port: string): void {
  const same = (bytes: Buffer): Buffer => bytes;
  const method = {
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  const server = new Server();
  server.addService(
    { ServerLive: { path: `${SERVICE}/ServerLive`, ...method } },
    {
      ServerLive: (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) =>
        callback(null, call.request),
    },
  );
  server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error) => {
    if (error !== null) throw error;
  });
}

async function main(): Promise<void> {
  const wanted = values.only?.split(',') ?? Object.keys(MEASURES);
  console.log(`${''.padEnd(30)} ${'stator'.padStart(9)} ${'dynamo'.padStart(9)} ${'floor'.padStart(9)}`);
  for (const name of wanted) for (const row of (await MEASURES[name]?.()) ?? []) note(row);
  if (values.json) console.log(JSON.stringify(rows));
}

if (values.floor !== undefined) serveFloor(values.floor);
else await main();
