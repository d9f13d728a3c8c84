import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../shared/clock/index.ts';
import { freePort } from '../test/support/free-port.ts';
import { waitUntil } from './processes.ts';

const WORKERS = 6;
const UP_MIN = 2;
const STREAMS = 200;
const TOKENS = 120;
const MODEL = 'stator-mini';
/**
 * Different prompts, so that answers differ; each has one right answer, as the mock engine's output depends on tokens
 * alone.
 */
const PROMPTS = Array.from({ length: 16 }, (_, at) => `What happens when machine number ${at} fails?`);

interface Worker {
  readonly child: ChildProcess;
  /** URL of its status server. */
  readonly url: string;
}

interface Tally {
  served: number;
  failed: number;
  wrong: number;
  kills: number;
  restarts: number;
}

/**
 * Kills and restarts mock workers at random under 200 concurrent streams, then counts what failed, what came out wrong
 * and what is left behind. Seconds from STATOR_BENCH_CHAOS_SECONDS. @default 600
 */
export async function chaos(seconds = Number(process.env.STATOR_BENCH_CHAOS_SECONDS ?? 600)) {
  const folder = mkdtempSync(join(tmpdir(), 'stator-chaos-'));
  const random = seededRandom(Number(process.env.STATOR_BENCH_CHAOS_SEED ?? 1));
  const children = new Set<ChildProcess>();
  const launch = (args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess => {
    const fleet = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv'), STATOR_LEASE_TTL_SECS: '2' };
    const child = spawn(process.execPath, ['dist/stator.js', ...args], {
      stdio: 'ignore',
      env: { ...process.env, ...fleet, ...env },
    });
    children.add(child);
    child.once('exit', () => children.delete(child));
    return child;
  };
  try {
    const port = await freePort();
    const frontend = launch(['frontend', '--http-host=127.0.0.1', `--http-port=${port}`, '--migration-limit=8']);
    const url = `http://127.0.0.1:${port}`;
    const start = () => startWorker(launch);
    const workers = await Promise.all(Array.from({ length: WORKERS }, start));
    const ready = `${url}/v1/models/${MODEL}/ready`;
    await waitUntil('a ready model', 30_000, () => send(ready).then(isOk, () => false));
    const right = new Map<string, string>();
    for (const prompt of PROMPTS) right.set(prompt, await ask(url, prompt));
    const idleSockets = await settledSockets(frontend, workers.length);

    const tally: Tally = { served: 0, failed: 0, wrong: 0, kills: 0, restarts: 0 };
    const untilMs = performance.now() + seconds * 1000;
    const clients = Array.from({ length: STREAMS }, (_, at) => stream(url, at, right, tally, untilMs));
    await strike(workers, start, () => random.next(), tally, untilMs);
    await Promise.all(clients);
    while (workers.length < WORKERS) workers.push(await start());

    const leaked = await leftBehind(url, workers);
    const sockets = (await settledSockets(frontend, workers.length, idleSockets)) - idleSockets;
    return rowsOf(tally, { ...leaked, sockets: Math.max(0, sockets) });
  } finally {
    for (const child of children) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startWorker(
  launch: (args: readonly string[], env: Readonly<Record<string, string>>) => ChildProcess,
): Promise<Worker> {
  const port = await freePort();
  const loopback = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_SYSTEM_HOST: '127.0.0.1' };
  const child = launch(['worker', '--engine=mocker', '--speedup-ratio=2'], { ...loopback, DYN_SYSTEM_PORT: `${port}` });
  const url = `http://127.0.0.1:${port}`;
  await waitUntil(
    'a ready worker',
    60_000,
    async () => (await fetch(`${url}/health`).catch(() => undefined))?.ok === true,
  );
  return { child, url };
}

/** One client: asks, compares, asks again. */
async function stream(
  url: string,
  at: number,
  right: ReadonlyMap<string, string>,
  tally: Tally,
  untilMs: number,
): Promise<void> {
  for (let turn = at; performance.now() < untilMs; turn++) {
    const prompt = PROMPTS[turn % PROMPTS.length] ?? '';
    try {
      const said = await ask(url, prompt);
      if (said === right.get(prompt)) tally.served++;
      else tally.wrong++;
    } catch (error) {
      tally.failed++;
      if (tally.failed <= FAILURES_TOLD) console.error(String(error));
    }
  }
}

const FAILURES_TOLD = 5;

/** Kills one worker after another, most of them hard, and starts new ones; at least two are up at any time. */
async function strike(
  workers: Worker[],
  start: () => Promise<Worker>,
  float: () => number,
  tally: Tally,
  untilMs: number,
): Promise<void> {
  while (performance.now() < untilMs) {
    await sleep(500 + float() * 1500);
    if (workers.length > UP_MIN && float() < 0.6) {
      const [victim] = workers.splice(Math.floor(float() * workers.length), 1);
      victim?.child.kill(float() < 0.7 ? 'SIGKILL' : 'SIGTERM');
      tally.kills++;
    } else if (workers.length < WORKERS) {
      workers.push(await start());
      tally.restarts++;
    }
  }
}

/** The text of a streamed chat. Rejects unless it comes whole, with its usage. */
async function ask(url: string, prompt: string): Promise<string> {
  const body = {
    model: MODEL,
    messages: [{ role: 'user', content: prompt }],
    max_tokens: TOKENS,
    ignore_eos: true,
    stream: true,
    stream_options: { include_usage: true },
  };
  const response = await send(`${url}/v1/chat/completions`, JSON.stringify(body));
  const raw = await text(response);
  if (response.statusCode !== 200 || !raw.endsWith('data: [DONE]\n\n'))
    throw new Error(`${response.statusCode}: ${raw.slice(-300)}`);
  let said = '';
  let tokens: number | undefined;
  for (const line of raw.split('\n')) {
    if (!line.startsWith('data: {')) continue;
    const chunk = JSON.parse(line.slice('data: '.length));
    if (chunk.error !== undefined) throw new Error(chunk.error.message);
    said += chunk.choices?.[0]?.delta?.content ?? '';
    tokens = chunk.usage?.completion_tokens ?? tokens;
  }
  if (tokens !== TOKENS) throw new Error(`${tokens} tokens instead of ${TOKENS}`);
  return said;
}

function isOk(response: IncomingMessage): boolean {
  response.resume(); // what is not read holds the connection
  return response.statusCode === 200;
}

/**
 * Sends a GET, or a POST if there is a body. Each request closes its connection after the answer, so that the frontend
 * has only itself to blame for connections that stay open later.
 */
function send(url: string, body?: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const post = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const options = { agent: false, ...(body === undefined ? {} : post) };
    request(url, options, resolve).once('error', reject).end(body);
  });
}

/** Returns the requests and blocks that are still held when no client sends requests any more. */
async function leftBehind(url: string, workers: readonly Worker[]): Promise<{ slots: number; blocks: number }> {
  await sleep(2500); // workers report their load every second
  for (const untilMs = performance.now() + SETTLED_MS_MAX; ; await sleep(500)) {
    const left = await countLeft(url, workers);
    if (left.slots + left.blocks === 0 || performance.now() > untilMs) return left;
  }
}

/** A busy machine may report late; what has leaked does not come back. */
const SETTLED_MS_MAX = 10_000;

async function countLeft(url: string, workers: readonly Worker[]): Promise<{ slots: number; blocks: number }> {
  let slots = await metric(url, 'dynamo_frontend_inflight_requests');
  let blocks = 0;
  for (const worker of workers) {
    slots += await metric(worker.url, 'dynamo_component_inflight_requests');
    blocks += await metric(worker.url, 'dynamo_component_gpu_cache_usage_percent');
  }
  return { slots, blocks };
}

async function metric(url: string, name: string): Promise<number> {
  const page = await text(await send(`${url}/metrics`));
  const lines = page.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** Time within which unused connections are closed. */
const IDLE_MS_MAX = 12_000;

/**
 * Sockets of the frontend beside those to workers, once idle connections were closed, or there are no more than
 * `enough`.
 */
async function settledSockets(frontend: ChildProcess, workers: number, enough = -1): Promise<number> {
  const count = (): number => openSockets(frontend) - workers;
  for (const untilMs = performance.now() + IDLE_MS_MAX; performance.now() < untilMs; await sleep(500)) {
    if (count() <= enough) break;
  }
  return count();
}

function openSockets({ pid }: ChildProcess): number {
  const folder = `/proc/${pid}/fd`;
  const isSocket = (fd: string): boolean => {
    try {
      return readlinkSync(`${folder}/${fd}`).startsWith('socket:');
    } catch {
      return false; // closed since it was listed
    }
  };
  return readdirSync(folder).filter(isSocket).length;
}

function rowsOf(
  { served, failed, wrong, kills, restarts }: Tally,
  left: { readonly slots: number; readonly blocks: number; readonly sockets: number },
) {
  const row = (figure: string, value: number, verdict: string) => ({
    workload: 'chaos',
    figure,
    values: { stator: value },
    verdict,
  });
  const none = (figure: string, value: number) => row(figure, value, value === 0 ? 'holds' : 'MISSED');
  return [
    row('served', served, `${kills} kills, ${restarts} restarts`),
    none('failed', failed),
    none('wrong text', wrong),
    none('slots left', left.slots),
    none('blocks left', left.blocks),
    none('sockets left', left.sockets),
  ];
}
