import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { seededRandom } from '../../../shared/clock/index.ts';
import { subjectOfEndpoint } from '../../../shared/planes/request/nats/plane.ts';
import { spawnNode } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { type Health, PROGRAM, START_MS_MAX, WatchedFrontend } from './frontend-watch.ts';
import { HostileValues } from './hostile-values.ts';
import { startHostileNats } from './nats-broker.ts';
import { startHostileZmq } from './zmq-publisher.ts';

/**
 * Lines of a log that show a defect. Readers report problems with outside data in their own words, and never in these
 * two.
 */
const DEFECT = /^.*([Uu]nhandled|[Uu]ncaught).*$/m;
const PUBLISHER_ID = 'c3';
const PUBLISHERS = 3;
const ANSWER_MS_MAX = 3000;
/** Time limit for a request that no honest worker will answer, in milliseconds. */
const LIAR_MS_MAX = 300;
const KEEP_ALIVE_MS = 1000;

/** Two frontends that follow events and send requests between hostile peers: one over NATS, one over ZeroMQ. */
export interface BrokerSession {
  /** Asks both frontends. Rejects if the frontend whose requests need no broker does not answer as usual. */
  play(): Promise<void>;
  look(): Promise<readonly Health[]>;
  close(): Promise<void>;
}

/** Starts the built program (`dist/`), an honest worker, a hostile NATS server and hostile publishers. */
export async function startBrokerSession(seed: number): Promise<BrokerSession> {
  const values = new HostileValues(seededRandom(seed));
  const folder = await mkdtemp(join(tmpdir(), 'stator-fuzz-brokers-'));
  const records = join(folder, 'kv', 'stator', 'v1');
  const nats = await startHostileNats(values);
  const publishers = await Promise.all(
    Array.from({ length: PUBLISHERS }, (_, at) => startHostileZmq(values, `${PUBLISHER_ID}${at}`)),
  );
  const env = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv'), TMPDIR: folder };
  const overNats = { NATS_SERVER: `nats://127.0.0.1:${nats.port}`, DYN_EVENT_PLANE: 'nats', DYN_REQUEST_PLANE: 'nats' };
  const host = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_SYSTEM_HOST: '127.0.0.1' };
  const worker = spawnNode([PROGRAM, 'worker', '--engine=mocker'], {
    env: { ...env, ...host, DYN_EVENT_PLANE: 'zmq', DYN_SYSTEM_PORT: '0' },
  });
  const options = { args: ['--router-mode=kv'], defect: DEFECT };
  const zmqFrontend = await WatchedFrontend.start(folder, { ...env, DYN_EVENT_PLANE: 'zmq' }, options);
  const natsFrontend = await WatchedFrontend.start(folder, { ...env, ...overNats }, options);
  const frontends = [zmqFrontend, natsFrontend];
  await worker.waitForOutput(/worker is ready/, START_MS_MAX);
  const register = (): Promise<void> =>
    registerHostile(
      records,
      publishers.map(({ port }) => port),
    );
  await waitUntil(
    () =>
      register().then(
        () => true,
        () => false,
      ),
    { timeoutMs: START_MS_MAX, what: 'honest records' },
  );
  const timer = setInterval(() => void register().catch(() => {}), KEEP_ALIVE_MS); // the folder may be gone at the end
  await waitUntil(async () => (await ask(zmqFrontend.url, 'stator-mini')) === 200, { timeoutMs: START_MS_MAX });
  await waitUntil(async () => (await ask(natsFrontend.url, 'nats-liar')) !== 404, { timeoutMs: START_MS_MAX });
  return {
    play: async () => {
      const [honest] = await Promise.all([
        ask(zmqFrontend.url, 'stator-mini'),
        ask(natsFrontend.url, 'nats-liar', LIAR_MS_MAX),
      ]);
      for (const frontend of frontends) frontend.mustRun();
      if (honest !== 200) throw new Error(`the frontend answers ${honest} where events are all that is hostile`);
    },
    look: () => Promise.all(frontends.map((frontend) => frontend.look())),
    close: async () => {
      clearInterval(timer);
      for (const server of [nats, ...publishers]) server.close();
      await Promise.all([...frontends.map((frontend) => frontend.close()), worker.kill()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Registers a worker behind NATS, and publishers of events, beside the honest ones. */
async function registerHostile(records: string, ports: readonly number[]): Promise<void> {
  const change = async (bucket: string, from: RegExp, id: string, spoil: (record: Spoilt) => void): Promise<void> => {
    const folder = join(records, bucket);
    // if the name is missing, reading the file fails
    const name = (await readdir(folder)).find((each) => from.test(each)) as string;
    const record = JSON.parse(await readFile(join(folder, name), 'utf8')) as Spoilt;
    const honest = record.instance_id;
    record.instance_id = id;
    spoil(record);
    await writeFile(join(folder, name.replace(honest, id)), JSON.stringify(record));
  };
  const honest = /generate%2F(?!d4$)[0-9a-f]+$/;
  await change('instances', honest, 'd4', (record) => {
    const { namespace, component, endpoint } = record;
    record.transport = { nats_tcp: subjectOfEndpoint(`d4/${namespace}/${component}/${endpoint}`) };
  });
  await change('mdc', honest, 'd4', ({ card }) =>
    Object.assign(card, { display_name: 'nats-liar', slug: 'nats-liar', aliases: [] }),
  );
  for (const [at, port] of ports.entries()) {
    await change(
      'event_channels',
      new RegExp(`kv-events%2F(?!${PUBLISHER_ID}\\d$)`),
      `${PUBLISHER_ID}${at}`,
      (record) => {
        record.transport = { kind: 'Zmq', config: { endpoint: `tcp://127.0.0.1:${port}` } };
      },
    );
  }
}

interface Spoilt {
  instance_id: string;
  transport: object;
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
  readonly card: object;
}

/** Returns the status of a short chat, or 0 if none came within the time that a client waits. */
async function ask(url: string, model: string, msMax = ANSWER_MS_MAX): Promise<number> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }], max_tokens: 2 }),
      signal: AbortSignal.timeout(msMax),
    });
    await response.text();
    return response.status;
  } catch {
    return 0;
  }
}
