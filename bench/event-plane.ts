// CPU of one process per event, published and received, over NATS and over ZeroMQ in the same run, and how fast a log
// is replayed. Installs nats-server if it is missing, as the tests do; STATOR_TEST_NATS_BIN names another. Run by
// itself:
//   npm run bench:part -- bench/event-plane.ts [--events N] [--json]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { systemClock } from '../shared/clock/index.ts';
import {
  createNatsEventPlane,
  createZmqEventPlane,
  type EventPlane,
  type EventScope,
  NatsClient,
} from '../shared/planes/index.ts';
import { freePort } from '../test/support/free-port.ts';
import { natsServer } from '../test/support/tools/nats-server.ts';

const { values } = parseArgs({
  options: { events: { type: 'string', default: '50000' }, json: { type: 'boolean', default: false } },
});
const EVENTS = Number(values.events);
/** Published in one turn, as a step of several engines. */
const BURST = 64;
const BLOCKS = 16;
const SCOPE: EventScope = { kind: 'component', namespace: 'bench', component: 'backend' };
const never = new AbortController().signal;

interface Row {
  readonly plane: string;
  readonly work: string;
  readonly events: number;
  /** CPU of this process, for both directions if there are two. */
  readonly cpuMicrosPerEvent: number;
  readonly eventsPerSecond: number;
}

/** Returns the event that a worker publishes for a stored prefix of 16 blocks. */
function storedEvent(at: number): unknown {
  const blocks = Array.from({ length: BLOCKS }, (_, block) => ({
    block_hash: 0x1234_5678_9abc_def0n + BigInt(at * BLOCKS + block),
    tokens_hash: 0xfedc_ba98_7654_3210n - BigInt(at * BLOCKS + block),
  }));
  return [{ worker_id: '2a', event: { event_id: at, dp_rank: 0, data: { stored: { parent_hash: null, blocks } } } }];
}

async function measured(plane: string, work: string, events: number, run: () => Promise<void>): Promise<Row> {
  const cpuBefore = process.cpuUsage();
  const startMs = performance.now();
  await run();
  const cpu = process.cpuUsage(cpuBefore);
  const seconds = (performance.now() - startMs) / 1000;
  const cpuMicrosPerEvent = Number(((cpu.user + cpu.system) / events).toFixed(2));
  return { plane, work, events, cpuMicrosPerEvent, eventsPerSecond: Math.round(events / seconds) };
}

/** Publishes and receives in this process; never more on the way than the planes hold. */
async function throughput(name: string, open: () => EventPlane): Promise<Row> {
  const [sender, receiver] = [open(), open()];
  const publisher = await sender.publisher(SCOPE, 'bench');
  let heard = 0;
  const subscription = await receiver.subscribe(SCOPE, 'bench', { event: () => void heard++ });
  subscription.connect(publisher.publisherId, publisher.transport);
  while (heard === 0) {
    publisher.publish('probe');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  heard = 0;
  const payloads = Array.from({ length: BURST }, (_, at) => storedEvent(at));
  const row = await measured(name, 'publish and receive', EVENTS, async () => {
    for (let sent = 0; sent < EVENTS; ) {
      for (let at = 0; at < BURST && sent < EVENTS; at++, sent++) publisher.publish(payloads[at]);
      while (sent - heard > 4096) await turn();
      await turn();
    }
    while (heard < EVENTS) await turn();
  });
  if (publisher.dropped > 0) throw new Error(`${name} dropped ${publisher.dropped} events`);
  await Promise.all([sender.close(), receiver.close()]);
  return row;
}

async function replay(open: () => EventPlane): Promise<Row[]> {
  const plane = open();
  const log = await plane.log?.(SCOPE, 'kv-events', never);
  if (log === undefined) throw new Error('a plane without a log');
  const publisher = await plane.publisher(SCOPE, 'kv-events');
  for (let sent = 0; sent < EVENTS; sent++) {
    publisher.publish(storedEvent(sent));
    if (sent % BURST === 0) await turn();
    if (sent % 4096 === 0) while ((await log.state(never)).lastSequence < sent) await turn();
  }
  while ((await log.state(never)).lastSequence < EVENTS) await turn();
  const read = await measured('nats', 'read the log', EVENTS, async () => {
    let count = 0;
    for await (const entry of log.read(1, never)) count += entry.sequence > 0 ? 1 : 0;
    if (count !== EVENTS) throw new Error(`read ${count} of ${EVENTS}`);
  });
  const follow = await measured('nats', 'follow the log', EVENTS, async () => {
    let count = 0;
    const follower = await log.follow(1, { entry: () => void count++, gap: () => {} }, never);
    while (count < EVENTS) await turn();
    await follower.close();
  });
  await plane.close();
  return [read, follow];
}

async function withNatsServer<T>(use: (url: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'stator-bench-nats-'));
  const port = await freePort();
  const file = join(folder, 'nats.conf');
  await writeFile(file, `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${join(folder, 'data')}" }\n`);
  const program =
    process.env.STATOR_TEST_NATS_BIN || ((await natsServer.findInstalled()) ?? (await natsServer.install()));
  const server = spawn(program, ['-c', file], { stdio: 'ignore' });
  const gone = new Promise<never>((_, reject) => {
    server.on('error', (error) => reject(new Error(`${program} cannot be started: ${error.message}`)));
  });
  try {
    return await Promise.race([use(`nats://127.0.0.1:${port}`), gone]);
  } finally {
    if (server.kill()) await once(server, 'exit'); // it writes until then
    await rm(folder, { recursive: true, force: true });
  }
}

const onProblem = (problem: unknown): void => console.error(String(problem));
const rows = await withNatsServer(async (url) => {
  const openNats = (): EventPlane => {
    const client = new NatsClient({ clock: systemClock, servers: [url] });
    return createNatsEventPlane({ client, clock: systemClock, onProblem });
  };
  const openZmq = (): EventPlane => createZmqEventPlane({ clock: systemClock, host: '127.0.0.1', onProblem });
  return [await throughput('zmq', openZmq), await throughput('nats', openNats), ...(await replay(openNats))];
});
if (values.json) console.log(JSON.stringify(rows));
else console.table(rows);
