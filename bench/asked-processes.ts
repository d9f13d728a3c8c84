// Stateless frontends that ask workers beside those that hash alone, and beside indexing ones, as processes: bursts of
// turns.
//   npm run bench:part -- bench/asked-processes.ts [--repeats 2] [--asking-timeout-ms N]
// Three frontends, five mock workers of four slots. All sides of one row in one run, in turn: compare those.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { seededRandom } from '../shared/clock/index.ts';
import { freePort } from '../test/support/free-port.ts';
import { ProcessGroup, waitUntil } from './processes.ts';

const { values } = parseArgs({
  options: { repeats: { type: 'string', default: '2' }, 'asking-timeout-ms': { type: 'string' } },
});

/** Words of a system prompt, and of a turn: about 1.4 tokens each. */
const LENGTHS = [
  { name: 'short', system: 300, turn: 60 },
  { name: 'long', system: 1500, turn: 300 },
] as const;

const STATELESS = ['--router-role=stateless'];
const SIDES = [
  { name: 'hash', frontends: 3, flags: [...STATELESS, '--router-asked-workers=0'] },
  { name: 'ask', frontends: 3, flags: STATELESS },
  { name: 'three indexes', frontends: 3, flags: [] },
  { name: 'one index', frontends: 1, flags: [] },
] as const;

const MODEL = 'm';
const WORKERS = 5;
const SYSTEM_PROMPTS = 6;
const SESSIONS = 60;
const ROUNDS = 12;
const WARM_ROUNDS = 2;
const OUTPUT_TOKENS = 30;
const SETTLED_MS = 2000;
const WORDS =
  'parts meet where their edges fit and what one holds the other may use again before it asks for more'.split(' ');

type Length = (typeof LENGTHS)[number];
type Side = (typeof SIDES)[number];
type Message = { readonly role: string; readonly content: string };

interface Answer {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly ttftMs: number;
}

const HEAD = ['Prompts', 'Side', 'Hit %', 'TTFT mean', 'p50', 'p95 ms', 'Asked: home/held/late/unanswered'];
console.log(`| ${HEAD.join(' | ')} |\n${'|---'.repeat(HEAD.length)}|`);
for (let repeat = 0; repeat < Number(values.repeats); repeat++) {
  for (const length of LENGTHS) for (const side of SIDES) console.log(await measure(length, side));
}

async function measure(length: Length, side: Side): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'stator-asked-'));
  const group = new ProcessGroup(folder);
  try {
    const urls = await start(group, folder, side);
    const answers = await converse(urls, length);
    const asked = await Promise.all(urls.map(askedOf));
    const sums = asked[0]?.map((_, at) => asked.reduce((sum, each) => sum + (each[at] ?? 0), 0)) ?? [];
    return `| ${[length.name, side.name, ...figures(answers), sums.join('/')].join(' | ')} |`;
  } finally {
    await group.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function start(group: ProcessGroup, folder: string, { frontends, flags }: Side): Promise<readonly string[]> {
  const timeout = values['asking-timeout-ms'];
  const env = {
    DYN_FILE_KV: join(folder, 'kv'),
    DYN_DISCOVERY_BACKEND: 'file',
    DYN_EVENT_PLANE: 'zmq',
    DYN_LOG: 'warn',
    STATOR_AUTH: 'off',
    ...(timeout === undefined ? {} : { STATOR_ROUTER_ASK_TIMEOUT_MS: timeout }),
  };
  const model = [`--model-path=shared/artifacts/builtin-model`, `--model-name=${MODEL}`];
  const engine = ['--engine=mocker', '--block-size=16', '--num-gpu-blocks-override=4096', '--speedup-ratio=2'];
  const worker = ['dist/stator.js', 'worker', ...engine, '--max-num-seqs=4', ...model];
  for (let at = 0; at < WORKERS; at++) group.start(`worker-${at}`, process.execPath, worker, env);
  const urls: string[] = [];
  for (let at = 0; at < frontends; at++) {
    const port = await freePort();
    const address = ['--http-host=127.0.0.1', `--http-port=${port}`, '--router-mode=kv'];
    group.start(`frontend-${at}`, process.execPath, ['dist/stator.js', 'frontend', ...address, ...flags], env);
    urls.push(`http://127.0.0.1:${port}`);
  }
  for (const url of urls) await waitUntil(`${url} (logs in ${folder})`, 60_000, () => servesAll(url));
  await new Promise((resolve) => setTimeout(resolve, SETTLED_MS)); // indexes are filled, loads are known
  return urls;
}

async function servesAll(url: string): Promise<boolean> {
  try {
    const health = (await (await fetch(`${url}/health`)).json()) as { readonly instances?: readonly unknown[] };
    return (health.instances?.length ?? 0) >= WORKERS;
  } catch {
    return false; // it does not listen yet
  }
}

/** Sessions speak in turn, half of them in one burst; each has its next turn at another frontend. */
async function converse(urls: readonly string[], length: Length): Promise<readonly Answer[]> {
  const random = seededRandom(7);
  const words = (count: number): string =>
    Array.from({ length: count }, () => WORDS[random.below(WORDS.length)]).join(' ');
  const systems = Array.from({ length: SYSTEM_PROMPTS }, () => words(length.system));
  const sessions = Array.from({ length: SESSIONS }, (_, at): Message[] => [
    { role: 'system', content: systems[at % SYSTEM_PROMPTS] as string },
  ]);
  const answers: Answer[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const burst = sessions.map(async (messages, at) => {
      if ((at + round) % 2 !== 0) return;
      messages.push({ role: 'user', content: words(length.turn) });
      const answer = await say(urls[(at + round) % urls.length] as string, messages);
      messages.push({ role: 'assistant', content: 'ok' });
      if (round >= WARM_ROUNDS) answers.push(answer);
    });
    await Promise.all(burst);
  }
  return answers;
}

async function say(url: string, messages: readonly Message[]): Promise<Answer> {
  const body = {
    model: MODEL,
    messages,
    max_tokens: OUTPUT_TOKENS,
    stream: true,
    stream_options: { include_usage: true },
  };
  const startMs = performance.now();
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body: JSON.stringify(body) });
  let ttftMs: number | undefined;
  let text = '';
  for await (const piece of response.body ?? []) {
    const said = Buffer.from(piece).toString();
    if (/"content":"[^"]/.test(said)) ttftMs ??= performance.now() - startMs;
    text += said;
  }
  const promptTokens = Number(/"prompt_tokens":(\d+)/.exec(text)?.[1]);
  if (response.status !== 200 || ttftMs === undefined || Number.isNaN(promptTokens)) throw new Error(text);
  return { promptTokens, cachedTokens: Number(/"cached_tokens":(\d+)/.exec(text)?.[1] ?? 0), ttftMs };
}

async function askedOf(url: string): Promise<readonly number[]> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return ['home', 'held', 'late', 'unanswered'].map((outcome) =>
    Number(new RegExp(`stator_router_asked_total\\{outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1] ?? 0),
  );
}

function figures(answers: readonly Answer[]): readonly string[] {
  const times = answers.map(({ ttftMs }) => ttftMs).sort((one, other) => one - other);
  const sum = (of: (answer: Answer) => number): number => answers.reduce((total, answer) => total + of(answer), 0);
  const at = (share: number): string => (times[Math.floor(share * (times.length - 1))] ?? Number.NaN).toFixed(0);
  const hit = (100 * sum(({ cachedTokens }) => cachedTokens)) / sum(({ promptTokens }) => promptTokens);
  return [hit.toFixed(1), (sum(({ ttftMs }) => ttftMs) / times.length).toFixed(0), at(0.5), at(0.95)];
}
