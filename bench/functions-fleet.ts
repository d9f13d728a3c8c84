// npm run bench:part -- bench/functions-fleet.ts [--from 1] [--seeds 5] [--requests 5000] [--functions 50]
//   [--in-flight 6] [--off]
//
// Measures the hit rate of many function instances that ask one resident router, beside one resident frontend that
// serves the same requests; with --off also of functions whose router does not answer. Few requests are in flight: the
// figure is the hit rate, not the speed, and fifty processes on two cores would answer too late. The output also says
// who decided. Then ten functions are killed during streams, and the output says what is left of their reservations.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { bundleFunction } from '../infra/bundle.ts';
import { createTestTable } from '../test/contract/discovery/test-table.ts';
import { startDynamoDb } from '../test/support/dynamodb-server.ts';
import { setup } from '../test/support/global-setup.ts';
import { type LambdaRuntime, startLambdaRuntime } from '../test/support/lambda-runtime.ts';
import { type SpawnedProcess, spawnProgram } from '../test/support/spawn-node.ts';
import { waitUntil } from '../test/support/wait-until.ts';

const { values } = parseArgs({
  options: {
    /** The first seed. */
    from: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '5' },
    requests: { type: 'string', default: '5000' },
    functions: { type: 'string', default: '50' },
    workers: { type: 'string', default: '4' },
    /** Requests at a time, on every side. */
    'in-flight': { type: 'string', default: '6' },
    /**
     * How long a function waits for the resident's first message: long, unless the speed of the machine is measured.
     */
    'choose-timeout-ms': { type: 'string', default: '2000' },
    off: { type: 'boolean', default: false },
  },
});

const MODEL = 'measured';
const FUNCTIONS = Number(values.functions);
const KILLED = Math.min(10, FUNCTIONS);
const SYSTEM_PROMPTS = 24;
const SESSIONS_OPEN = 200;
const TURNS_MAX = 8;
const WORDS =
  'parts meet where their edges fit and what one holds the other may use again before it asks for more'.split(' ');

interface Usage {
  readonly prompt_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
}
type Message = { readonly role: string; readonly content: string };

const temporary = mkdtempSync(join(tmpdir(), 'stator-functions-fleet-'));
const directory = join(temporary, 'function');
await setup();
await bundleFunction({ outdir: directory });
const server = await startDynamoDb();
const first = Number(values.from);
const last = first + Number(values.seeds) - 1;
for (let seed = first; seed <= last; seed++) {
  const isLast = seed === last;
  const one = await measure(seed, 'frontend');
  const many = await measure(seed, 'functions', isLast);
  const alone = values.off ? await measure(seed, 'functions alone') : undefined;
  const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;
  const off = alone === undefined ? '' : `  without it ${percent(alone)} (${(alone / one).toFixed(2)} of it)`;
  const gap = ((one - many) * 100).toFixed(2);
  console.log(
    `seed ${seed}: one frontend ${percent(one)}  ${FUNCTIONS} functions ${percent(many)}  gap ${gap} points${off}`,
  );
}
await server.stop();
rmSync(temporary, { recursive: true, force: true });
process.exit(0);

/** Share of the prompts' tokens that workers had. Each side has a fleet of its own, with empty caches. */
async function measure(
  seed: number,
  side: 'frontend' | 'functions' | 'functions alone',
  kills = false,
): Promise<number> {
  const table = await createTestTable(server.url);
  const env = {
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    STATOR_DISCOVERY_TABLE: table.tableName,
    STATOR_DYNAMODB_ENDPOINT: table.endpoint,
    DYN_EVENT_PLANE: 'zmq',
    DYN_EVENT_PLANE_HOST: '127.0.0.1',
    DYN_TCP_RPC_HOST: '127.0.0.1',
    DYN_SYSTEM_HOST: '127.0.0.1',
    DYN_ROUTER_MODE: 'kv',
    DYN_LOG: 'warn',
  };
  const processes: SpawnedProcess[] = [];
  const start = async (args: readonly string[], isUp: RegExp): Promise<string> => {
    const child = spawnProgram(process.execPath, ['dist/stator.js', ...args], { env: { ...env, DYN_LOG: 'info' } });
    processes.push(child);
    const [, found = ''] = await child.waitForOutput(isUp, 60_000);
    return found;
  };
  const model = ['--engine=mocker', '--mock-output=random', '--block-size=16', '--num-gpu-blocks-override=4096'];
  const flags = ['worker', ...model, '--speedup-ratio=20', `--model-name=${MODEL}`];
  const path = `--model-path=${resolve('shared/artifacts/builtin-model')}`;
  await Promise.all(Array.from({ length: Number(values.workers) }, () => start([...flags, path], /(worker is ready)/)));
  const http = ['frontend', '--http-host=127.0.0.1', '--http-port=0', '--router-role=resident'];
  const resident = side === 'functions alone' ? undefined : await start(http, /serving url=(\S+)/);
  const patient = {
    STATOR_ROUTER_CHOOSE_TIMEOUT_MS: values['choose-timeout-ms'],
    STATOR_ROUTER_CONNECT_TIMEOUT_MS: '2000',
  };
  const runtime =
    side === 'frontend'
      ? undefined
      : await startLambdaRuntime({
          directory,
          env: { ...env, ...patient, STATOR_AUTH: 'off' },
          environmentsMax: FUNCTIONS,
          spread: true,
        });
  const url = runtime?.url ?? resident ?? '';
  await waitUntil(async () => ((await (await fetch(`${url}/v1/models`)).json()) as { data: [] }).data.length > 0, {
    timeoutMs: 30_000,
    pollMs: 200,
  });
  if (runtime !== undefined) await warm(runtime);
  const startedMs = performance.now();
  const rate = await drive(url, seed);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
  const decided = runtime === undefined ? 'all by itself' : decisionsOf(runtime);
  console.log(`  seed ${seed}, ${side}: ${(rate * 100).toFixed(2)} % in ${seconds} s; decided: ${decided}`);
  if (kills && runtime !== undefined && resident !== undefined) await killSome(runtime, resident);
  await runtime?.stop();
  await Promise.all(processes.map((each) => each.kill()));
  await table.drop();
  return rate;
}

/**
 * Starts the functions some at a time: all at once, two cores would leave none of them time enough to read its table.
 */
async function warm(runtime: LambdaRuntime): Promise<void> {
  const once = async (): Promise<void> => {
    await (await fetch(`${runtime.url}/v1/models`)).arrayBuffer();
  };
  for (let count = 5; count <= FUNCTIONS; count += 5) {
    await waitUntil(
      async () => {
        await Promise.all(Array.from({ length: count }, once));
        return runtime.environments().length >= count;
      },
      { what: `${count} functions`, timeoutMs: 60_000 },
    );
    await runtime.idle();
  }
}

/** By whom the requests were placed, as the functions' logs say: what the resident router did not decide, and why. */
function decisionsOf(runtime: LambdaRuntime): string {
  const counts: Record<string, number> = {};
  for (const [, found] of runtime.output().matchAll(/"FallbackReasons":(\{[^}]*\})/g)) {
    for (const [reason, count] of Object.entries(JSON.parse(found ?? '{}') as Record<string, number>)) {
      counts[reason] = (counts[reason] ?? 0) + count;
    }
  }
  const fallbacks = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const requests = Math.max(Number(values.requests), fallbacks); // a request that was asked again counts twice
  const share = ((fallbacks / requests) * 100).toFixed(2);
  return `${requests - fallbacks} resident, ${fallbacks} stateless (${share} %) ${JSON.stringify(counts)}`;
}

/**
 * Conversations that share system prompts, a few requests at a time. Each lane has numbers and conversations of its
 * own: both sides get the same requests, whichever is faster.
 */
async function drive(url: string, seed: number): Promise<number> {
  const lanes = Number(values['in-flight']);
  const systems = Array.from({ length: SYSTEM_PROMPTS }, (_, at) => words(seeded(seed * 1000 + at), 300));
  const each = Math.ceil(Number(values.requests) / lanes);
  const tallies = await Promise.all(
    Array.from({ length: lanes }, (_, lane) => converse(url, seeded(seed * 1_000_000 + lane), systems, each)),
  );
  const sum = (of: (tally: Tally) => number): number => tallies.reduce((total, tally) => total + of(tally), 0);
  return sum(({ cached }) => cached) / sum(({ prompt }) => prompt);
}

interface Tally {
  readonly prompt: number;
  readonly cached: number;
}

/** One request after the other, each of them a turn of one of many conversations. */
async function converse(
  url: string,
  random: () => number,
  systems: readonly string[],
  requests: number,
): Promise<Tally> {
  const open = Math.ceil(SESSIONS_OPEN / Number(values['in-flight']));
  const sessions: Message[][] = [];
  let prompt = 0;
  let cached = 0;
  for (let count = 0; count < requests; count++) {
    const isNew = sessions.length < open || random() < 0.25;
    const at = isNew ? -1 : Math.floor(random() * sessions.length);
    const before = isNew
      ? [{ role: 'system', content: systems[Math.floor(random() ** 2 * SYSTEM_PROMPTS)] ?? '' }]
      : (sessions.splice(at, 1)[0] ?? []);
    const messages = [...before, { role: 'user', content: words(random, 60 + Math.floor(random() * 120)) }];
    const usage = await ask(url, messages);
    prompt += usage.prompt_tokens;
    cached += usage.prompt_tokens_details?.cached_tokens ?? 0;
    const answer = words(random, 40);
    if (messages.length < TURNS_MAX * 2) sessions.push([...messages, { role: 'assistant', content: answer }]);
  }
  return { prompt, cached };
}

function words(random: () => number, count: number): string {
  return Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
}

async function ask(url: string, messages: readonly Message[]): Promise<Usage> {
  for (;;) {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, max_tokens: 4, messages }),
    });
    if (response.status === 429) {
      await response.arrayBuffer(); // an answer is complete a moment before its function is free
      continue;
    }
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    return ((await response.json()) as { readonly usage: Usage }).usage;
  }
}

/** Kills functions under streams, and waits until neither the resident nor a worker holds anything of them. */
async function killSome(runtime: LambdaRuntime, resident: string): Promise<void> {
  await runtime.idle();
  const streams = Array.from({ length: KILLED }, async (_, at) => {
    const response = await fetch(`${runtime.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: MODEL,
        stream: true,
        max_tokens: 4000,
        ignore_eos: true,
        messages: [{ role: 'user', content: `stream ${at}` }],
      }),
    });
    for await (const _chunk of response.body ?? []) {
      // read until it breaks
    }
  });
  const over = Promise.allSettled(streams);
  const busy = () => runtime.environments().filter(({ isIdle }) => !isIdle);
  await waitUntil(async () => busy().length === KILLED && (await heldBy(resident)) > 0, { timeoutMs: 30_000 });
  const held = await heldBy(resident);
  for (const { pid } of busy()) if (pid !== undefined) process.kill(pid, 'SIGKILL');
  const killedMs = performance.now();
  await over;
  await waitUntil(async () => (await heldBy(resident)) === 0, { what: 'nothing held', timeoutMs: 30_000, pollMs: 50 });
  const ms = Math.round(performance.now() - killedMs);
  console.log(`${KILLED} functions killed under streams: ${held} held before, 0 after ${ms} ms`);
}

/** Reservations, and blocks of requests that the resident believes to be under way. */
async function heldBy(resident: string): Promise<number> {
  const text = await (await fetch(`${resident}/metrics`)).text();
  const names = /^(stator_router_reservations|dynamo_frontend_worker_active_decode_blocks)[{ ]/;
  const lines = text.split('\n').filter((line) => names.test(line));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** Numbers below 1, the same for the same seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed * 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
