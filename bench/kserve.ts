// npm run bench:part -- bench/kserve.ts [--dynamo FOLDER] [--before FOLDER] [--only unary,burst,...] [--blocks N]
//   [--json]
//
// KServe by gRPC: CPU of the frontend's process beside a real Dynamo, another build of this product and a bare grpc-js
// server, whose blocks alternate; memory, start, large tensors.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { alternate, type Blocks, median, mediansOf, ratioOf } from './kserve/alternate.ts';
import { echoLarge } from './kserve/large-echo.ts';
import { askStream, askUnary, forgetPeak, messageOf, SERVICE } from './kserve/load.ts';
import { type KserveSide, type KserveSideOptions, type SideName, startKserveSide } from './kserve/sides.ts';
import { residentMiB } from './processes.ts';

const { values } = parseArgs({
  options: {
    dynamo: { type: 'string', default: process.env.STATOR_BENCH_DYNAMO ?? '' },
    /** A folder with `stator.js` of another build. */
    before: { type: 'string' },
    model: { type: 'string' },
    only: { type: 'string' },
    blocks: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
    floor: { type: 'string' },
  },
});
const blocks = Number(values.blocks);
const dynamoFolder = values.dynamo === '' ? undefined : values.dynamo;
const modelFolder = values.model ?? (dynamoFolder === undefined ? 'dist/builtin-model' : join(dynamoFolder, 'model'));
const base = {
  modelFolder,
  dynamoFolder,
  beforeFolder: values.before,
  maxTokens: 16,
  speedup: 1_000_000,
  model: 'bench' as const,
};
const AT_ONCE = 16;
const BLOCK_SECONDS_MAX = 20;

interface Row {
  readonly name: string;
  readonly unit: string;
  /** Blocks of rows whose sides alternate; their figures are the medians, their ratios those of the rounds. */
  readonly blocks?: Blocks;
  readonly values?: Readonly<Partial<Record<SideName, number>>>;
  /** Against Dynamo. */
  readonly ratioMax?: number;
  /** Against the floor. */
  readonly floorMax?: number;
  readonly max?: number;
}

const rows: Row[] = [];

/** All sides of a row that there are, at the same time. */
async function withSides<T>(
  names: readonly SideName[],
  options: KserveSideOptions,
  use: (sides: readonly KserveSide[]) => Promise<T>,
): Promise<T> {
  const sides: KserveSide[] = [];
  try {
    for (const name of names) {
      if (name === 'dynamo' && dynamoFolder === undefined) continue;
      if (name === 'before' && values.before === undefined) continue;
      sides.push(await startKserveSide(name, options));
    }
    return await use(sides);
  } finally {
    for (const side of sides) await side.stop();
  }
}

const OTHERS: readonly SideName[] = ['dynamo', 'before'];

/** Microseconds of CPU for each unit that `ask` counts, in blocks that alternate. */
const perUnit = (
  { count, warmUpBlocks, others = OTHERS }: { count: number; warmUpBlocks: number; others?: readonly SideName[] },
  options: KserveSideOptions,
  ask: (side: KserveSide) => Promise<number>,
): Promise<Blocks> =>
  withSides(['stator', ...others], options, (sides) =>
    alternate(sides, ask, { atOnce: AT_ONCE, count, blocks, warmUpBlocks, secondsMax: BLOCK_SECONDS_MAX }),
  );

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

/** Returns the memory per stream of a thousand streams at a real pace. */
async function memoryOfStreams(side: KserveSide): Promise<number> {
  const streams = 1000;
  const message = messageOf('bench', { maxTokens: 200, isStream: true });
  const wave = (): Promise<unknown> =>
    Promise.all(Array.from({ length: streams }, () => askStream(side.client, message)));
  await wave(); // the heap has its size
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const before = residentMiB(side.pid);
  forgetPeak(side.pid);
  await wave();
  return ((residentMiB(side.pid, 'VmHWM') - before) * 1024) / streams;
}

const MEASURES: Readonly<Record<string, () => Promise<readonly Row[]>>> = {
  live: async () => {
    const options = { ...base, model: 'echo' as const };
    const load = { count: 1000, warmUpBlocks: 6, others: ['dynamo', 'before', 'floor'] as const };
    const figures = await perUnit(load, options, unary('ServerLive', Buffer.alloc(0)));
    return [{ name: 'ServerLive, CPU', unit: 'us', blocks: figures, floorMax: 1.3 }];
  },
  tensor: async () => {
    const options = { ...base, model: 'echo' as const };
    const figures = await perUnit({ count: 1000, warmUpBlocks: 8 }, options, unary('ModelInfer', messageOf('echo')));
    return [{ name: 'INT32[16] echo, CPU', unit: 'us', blocks: figures, ratioMax: 0.7 }];
  },
  unary: async () => {
    const message = messageOf('bench', { maxTokens: 16 });
    const figures = await perUnit({ count: 500, warmUpBlocks: 6 }, base, unary('ModelInfer', message));
    return [{ name: '16 tokens, CPU', unit: 'us', blocks: figures, ratioMax: 0.6 }];
  },
  burst: async () => {
    const ask = stream(messageOf('bench', { maxTokens: 200, isStream: true }));
    const figures = await perUnit({ count: 100, warmUpBlocks: 6 }, { ...base, maxTokens: 200 }, ask);
    return [{ name: 'burst, CPU a token', unit: 'us', blocks: figures, ratioMax: 0.9 }];
  },
  paced: async () => {
    const ask = stream(messageOf('bench', { maxTokens: 200, isStream: true }));
    const figures = await perUnit({ count: 32, warmUpBlocks: 3 }, { ...base, maxTokens: 200, speedup: 1 }, ask);
    return [{ name: 'paced, CPU a token', unit: 'us', blocks: figures, ratioMax: 0.6 }];
  },
  streams: async () => {
    const options = { ...base, speedup: 1 };
    const kib = await withSides(['stator'], options, ([side]) => memoryOfStreams(side!)); // it is always there
    return [{ name: '1,000 streams, each', unit: 'KiB', values: { stator: kib }, max: 60 }];
  },
  start: async () => {
    const ready: number[] = [];
    const idle: number[] = [];
    for (let round = 0; round < 3; round++) {
      await withSides(['stator'], base, async ([side]) => {
        ready.push(side!.readyMs);
        await new Promise((resolve) => setTimeout(resolve, 2000));
        idle.push(residentMiB(side!.pid));
      });
    }
    return [
      { name: 'start to first answer', unit: 'ms', values: { stator: median(ready) }, max: 1000 },
      { name: 'idle memory', unit: 'MiB', values: { stator: median(idle) }, max: 120 },
    ];
  },
  large: async () => {
    const { copies, sliceMs, otherMs } = await echoLarge(base);
    return [
      { name: '64 MiB echo, copies', unit: '', values: { stator: copies }, max: 3 },
      { name: '64 MiB echo, slice', unit: 'ms', values: { stator: sliceMs }, max: 20 },
      { name: '64 MiB echo, others wait', unit: 'ms', values: { stator: otherMs } },
    ];
  },
};

function verdictOf({ blocks: measured, values: { stator = Number.NaN } = {}, ratioMax, floorMax, max }: Row): string {
  if (measured === undefined) {
    return max === undefined ? '' : `${stator <= max ? 'holds' : 'MISSED'} (at most ${max})`;
  }
  const against = (other: SideName, label: string, most?: number): string => {
    const ratio = ratioOf(measured, 'stator', other);
    if (ratio === undefined) return '';
    return `${ratio.toFixed(2)} x ${label}${most === undefined ? '' : `, ${ratio <= most ? 'holds' : 'MISSED'} (at most ${most})`}`;
  };
  const verdicts = [
    against('dynamo', 'Dynamo', ratioMax),
    against('floor', 'the floor', floorMax),
    against('before', 'before'),
  ];
  return verdicts.filter((text) => text !== '').join('; ');
}

const SIDES: readonly SideName[] = ['stator', 'dynamo', 'before', 'floor'];

function note(row: Row): void {
  const figures = row.blocks === undefined ? (row.values ?? {}) : mediansOf(row.blocks);
  rows.push({ ...row, values: figures });
  const cells = SIDES.map((name) => (figures[name]?.toFixed(2) ?? '-').padStart(9));
  console.log(`${`${row.name} ${row.unit}`.padEnd(30)} ${cells.join(' ')}  ${verdictOf(row)}`);
}

/** The minimal gRPC server on Node: it answers with its input. */
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
  console.log(`${''.padEnd(30)} ${SIDES.map((name) => name.padStart(9)).join(' ')}`);
  for (const name of wanted) for (const row of (await MEASURES[name]?.()) ?? []) note(row);
  if (values.json)
    console.log(JSON.stringify(rows, (_, value) => (value instanceof Map ? Object.fromEntries(value) : value)));
}

if (values.floor !== undefined) serveFloor(values.floor);
else await main();
