import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect } from 'vitest';
import {
  type Fleet,
  postJson,
  type StatorProcess,
  spawnTypeScript,
  sseData,
  startTcpProxy,
  type TcpProxy,
  useFleet,
  waitUntil,
} from '../../support/index.ts';

export const STAGES = [
  'queued',
  'before the first token',
  'in prefill',
  'in mid-stream',
  'at the last token',
  'during a drain',
] as const;
/**
 * Stages of a request whose prompt a prefill worker computes. Either of its two workers may drain: the one that
 * computes the prompt, or the one that answers.
 */
export const SPLIT_STAGES = [...STAGES, 'during a prefill drain'] as const;
/** Stage at which the prompt is computed, and the decode worker fetches its blocks. It needs a slow link. */
export const TRANSFER = 'while its blocks move';
export type Stage = (typeof SPLIT_STAGES)[number] | typeof TRANSFER;
export const FORMS = ['stream', 'unary'] as const;
export type Form = (typeof FORMS)[number];

export interface Cell {
  readonly stage: Stage;
  readonly form: Form;
}

/**
 * Whether every cell is played (`npm run test:faults`). Otherwise only the cells are played in which real processes may
 * show more than `test/faults`.
 */
export const IS_FULL = process.env.STATOR_TEST_FAULTS === 'all';

/** Returns each stage in both forms, or only as a stream if not every cell is played. */
export function cellsOf(stages: readonly Stage[]): readonly Cell[] {
  const forms = IS_FULL ? FORMS : FORMS.slice(0, 1);
  return stages.flatMap((stage) => forms.map((form) => ({ stage, form })));
}

/** The cells of a fault that is played at one stage where not every cell is. */
export function cellsAt(stage: Stage, stages: readonly Stage[]): readonly Cell[] {
  return cellsOf(IS_FULL ? stages : [stage]);
}

/** Task of a worker; all workers of one pool have the same. */
export type Role = 'agg' | 'prefill' | 'decode';
/** Prompts are computed by workers of their own. */
export const SPLIT: readonly Role[] = ['prefill', 'decode'];

const MODEL = 'stator-mini';
const INFLIGHT = 'dynamo_component_inflight_requests';
const FIRST_RESPONSES = 'dynamo_component_time_to_first_response_seconds_count';
const CACHE_USAGE = 'dynamo_component_gpu_cache_usage_percent';

/**
 * A third of a second to the first token, then some milliseconds a token. A worker runs one request at a time, so that
 * others queue.
 */
const PACE = ['--speedup-ratio=0.045', '--decode-speedup-ratio=22', '--max-num-seqs=1'];
/** A prompt takes a second, so that even on a busy machine it is under way when the fault comes. */
export const LONG_PROMPTS = ['--speedup-ratio=0.015', '--decode-speedup-ratio=66'];
const FAST = {
  // Long enough that no process loses its lease while the machine pauses. `mend` removes the records of killed ones.
  STATOR_LEASE_TTL_SECS: '10',
  STATOR_LOAD_REPORT_INTERVAL_MS: '100',
  DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '0.3',
  DYN_INHIBITED_DURATION_SECS: '0.5',
};

/** The whole answer of a client, whether it asked for a stream or not. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly finishReason: string | undefined;
  /** Prompt and completion tokens; what caches held depends on the worker. */
  readonly usage: readonly (number | undefined)[];
  readonly error: unknown;
}

/** A request from the client's side. */
interface Asked {
  /** The head of the answer. */
  readonly answered: Promise<Response>;
  readonly answer: Promise<Answer>;
  /** Goes as a client that closes its connection. */
  leave(): void;
  /** Begins to read, where the client has not yet (`isSlow`). */
  read(): void;
}

/** A request that has reached its stage. */
export interface Run extends Asked {
  readonly stage: Stage;
  readonly form: Form;
  /** The worker that has it. */
  readonly victim: StatorProcess;
  /** It has been told to stop. */
  readonly isDraining: boolean;
  /** The same request, undisturbed; of a long one the beginning. */
  readonly whole: Answer;
  /** Bound of the tokens of `whole`. */
  readonly maxTokens: number;
  /** The worker that has computed its prompt. */
  source(): Promise<StatorProcess>;
}

interface AskOptions {
  /** Whether the client reads nothing until the test lets it. */
  readonly isSlow?: boolean;
}

interface ReachOptions extends AskOptions {
  /** Whether the answer takes seconds, unless it is at its last token: a fault must come before its end. */
  readonly isLong?: boolean;
}

/** Stages last for a third of a second and more; each look costs the workers a millisecond. */
const POLL_MS = 8;

/** Tokens of a long answer: two seconds and more. */
const LONG_TOKENS = 400;

export interface BedOptions {
  /**
   * Pools of two workers each. The first pool has a request until its first token, the last one from then on.
   * @default `['agg']`
   */
  readonly pools?: readonly Role[];
  readonly env?: Readonly<Record<string, string>>;
  readonly frontendArgs?: readonly string[];
  readonly workerArgs?: readonly string[];
  /** Workers whose engine dies at SIGUSR2. @default the program's own */
  readonly isMortal?: boolean;
  /** Workers are reached through relays that can be cut. @default no */
  readonly hasProxies?: boolean;
}

export interface MatrixBed {
  readonly fleet: Fleet;
  readonly frontend: StatorProcess;
  readonly proxies: ReadonlyMap<StatorProcess, TcpProxy>;
  /** Sum of a metric over the workers of the first, or of the last pool. */
  sum(metric: string, pool: 'first' | 'last'): Promise<number>;
  /** Starts a request and waits until it has come to `stage`. */
  reach(stage: Stage, form: Form, options?: ReachOptions): Promise<Run>;
  ask(form: Form, maxTokens: number, options?: AskOptions): Asked;
  /** Waits until the requests that only keep engines busy are over. */
  release(): Promise<void>;
  /** The discovery store can be neither read nor written until `bringDiscoveryBack`. */
  takeDiscoveryAway(): void;
  bringDiscoveryBack(): void;
  /** The worker is gone for good; `mend` starts another. */
  lost(worker: StatorProcess): void;
  replaceFrontend(): Promise<void>;
  /** Two workers in each pool that serve, and nothing under way anywhere: no slot, block or request has leaked. */
  mend(): Promise<void>;
}

/** A frontend with two workers, or two of each pool, for the suite that calls it. */
export function useMatrixBed(options: BedOptions = {}): MatrixBed {
  const env: Record<string, string> = {};
  const fleet = useFleet(env);
  const bed = new Bed(fleet, options);
  beforeAll(() => {
    Object.assign(env, FAST, options.env); // the suite's own set-up may have added to it
    return bed.open();
  });
  afterAll(() => bed.close());
  return bed;
}

class Bed implements MatrixBed {
  readonly fleet: Fleet;
  readonly proxies = new Map<StatorProcess, TcpProxy>();
  readonly #options: BedOptions;
  readonly #pools: readonly Role[];
  readonly #whole = new Map<number, Answer>();
  #frontend: StatorProcess | undefined;
  readonly #workers = new Map<StatorProcess, Role>();
  /** Not yet buried. */
  readonly #lost: StatorProcess[] = [];
  /** The ends, good or bad, of requests that only keep engines busy. */
  #blockers: Promise<unknown>[] = [];

  constructor(fleet: Fleet, options: BedOptions) {
    this.fleet = fleet;
    this.#options = options;
    this.#pools = options.pools ?? ['agg'];
  }

  get frontend(): StatorProcess {
    if (this.#frontend === undefined) throw new Error('the bed is not open');
    return this.#frontend;
  }

  async open(): Promise<void> {
    const { fileKv } = this.fleet;
    mkdirSync(`${fileKv}.here`);
    writeFileSync(`${fileKv}.away`, ''); // not a folder: no process can make one below it
    this.#pointDiscoveryAt(`${fileKv}.here`);
    await Promise.all([this.replaceFrontend(), this.#fill()]);
    await this.fleet.untilWorkers(this.frontend, this.#workers.size);
    for (const { maxTokens } of Object.values(SIGNS)) {
      if (!this.#whole.has(maxTokens)) this.#whole.set(maxTokens, await this.ask('unary', maxTokens).answer);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.proxies.values()].map((proxy) => proxy.close()));
  }

  async replaceFrontend(): Promise<void> {
    this.#frontend = await this.fleet.frontend(['--migration-limit=8', ...(this.#options.frontendArgs ?? [])]);
  }

  lost(worker: StatorProcess): void {
    this.#workers.delete(worker);
    this.#lost.push(worker);
  }

  async sum(metric: string, pool: 'first' | 'last'): Promise<number> {
    const counts = await this.#counts(metric, this.#poolOf(pool));
    return [...counts.values()].reduce((sum, count) => sum + count, 0);
  }

  async reach(stage: Stage, form: Form, { isLong = false, ...options }: ReachOptions = {}): Promise<Run> {
    const { maxTokens, drains: isDraining = false } = SIGNS[stage];
    const whole = this.#whole.get(maxTokens);
    if (whole === undefined) throw new Error('the bed is not open');
    const askedTokens = isLong && stage !== 'at the last token' ? LONG_TOKENS : maxTokens;
    for (;;) {
      if (stage === 'queued' && !(await this.#occupyAll())) continue;
      const before = await this.#counts(FIRST_RESPONSES);
      const asked = this.ask(form, askedTokens, options);
      asked.answer.catch(() => undefined); // clients that leave have none
      const victim = await this.#untilAt(stage, before, asked.answered);
      if (victim === undefined) {
        asked.read();
        await asked.answer;
        continue;
      }
      if (isDraining) {
        victim.signal('SIGTERM');
        await victim.waitForOutput(/worker is draining/);
        this.lost(victim);
      }
      const source = () => this.#answerer(before);
      return { stage, form, victim, isDraining, whole, maxTokens, source, ...asked };
    }
  }

  ask(form: Form, maxTokens: number, { isSlow = false }: AskOptions = {}): Asked {
    const leaving = new AbortController();
    let read = (): void => {};
    const isRead = isSlow
      ? new Promise<void>((resolve) => {
          read = resolve;
        })
      : Promise.resolve();
    const body = {
      model: MODEL,
      messages: [{ role: 'user', content: 'What if a machine fails?' }],
      ignore_eos: true,
      max_tokens: maxTokens,
      ...(form === 'stream' ? { stream: true, stream_options: { include_usage: true } } : {}),
    };
    const url = `${this.frontend.url}/v1/chat/completions`;
    const answered = postJson(url, body, { signal: leaving.signal });
    const answer = answered.then(async (response) => {
      await isRead;
      return form === 'stream' ? readStream(response) : readUnary(response);
    });
    return { answered, answer, leave: () => leaving.abort(), read: () => read() };
  }

  async release(): Promise<void> {
    await Promise.all(this.#blockers.splice(0));
  }

  takeDiscoveryAway(): void {
    this.#pointDiscoveryAt(`${this.fleet.fileKv}.away`);
  }

  bringDiscoveryBack(): void {
    this.#pointDiscoveryAt(`${this.fleet.fileKv}.here`);
  }

  /** In one step: between two, a worker that renews its records would make a folder of its own. */
  #pointDiscoveryAt(path: string): void {
    const { fileKv } = this.fleet;
    symlinkSync(path, `${fileKv}.next`);
    renameSync(`${fileKv}.next`, fileKv);
  }

  async mend(): Promise<void> {
    await this.release();
    // First the dead are off record, or they would be counted in place of new ones.
    this.#bury();
    await this.fleet.untilWorkers(this.frontend, this.#workers.size);
    await this.#fill();
    await this.fleet.untilWorkers(this.frontend, this.#workers.size);
    await waitUntil(async () => (await this.frontend.metric('dynamo_frontend_inflight_requests')) === 0, {
      what: 'a frontend without requests',
    });
    for (const name of [INFLIGHT, CACHE_USAGE]) {
      await waitUntil(async () => [...(await this.#counts(name)).values()].every((count) => count === 0), {
        what: `${name} back at 0 on every worker`,
      });
    }
  }

  /** Takes from discovery what the dead have left there, which would else stay until their leases end. */
  #bury(): void {
    const records = readdirSync(this.fleet.fileKv, { recursive: true, encoding: 'utf8' });
    for (const { instanceId } of this.#lost.splice(0)) {
      const own = records.filter((record) => record.includes(instanceId));
      for (const record of own) rmSync(join(this.fleet.fileKv, record), { force: true });
    }
  }

  #poolOf(pool: 'first' | 'last'): Role {
    return this.#pools.at(pool === 'first' ? 0 : -1) as Role; // there is at least one
  }

  /** Has the workers that compute prompts busy. False = they were not so at one time. */
  async #occupyAll(): Promise<boolean> {
    await this.release();
    const first = this.#poolOf('first');
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    this.#blockers = this.#workersOf(first).map(() => this.ask('unary', 80).answer.then(over, over));
    const found = await waitUntil(
      async () => {
        const wasOver = isOver;
        const counts = await this.#counts(INFLIGHT, first);
        return [...counts.values()].every((count) => count > 0) ? 'busy' : wasOver && 'missed';
      },
      { what: 'busy workers', pollMs: POLL_MS },
    );
    return found === 'busy';
  }

  /**
   * Returns the worker that has the request at `stage`, or undefined if a busy machine answered the request before the
   * test saw it there.
   */
  async #untilAt(
    stage: Stage,
    before: ReadonlyMap<StatorProcess, number>,
    answered: Promise<unknown>,
  ): Promise<StatorProcess | undefined> {
    const { metric, pool, above } = SIGNS[stage];
    let isOver = false;
    const over = (): void => {
      isOver = metric !== FIRST_RESPONSES; // that one stays
    };
    answered.then(over, over);
    const found = await waitUntil(
      async () => {
        const wasOver = isOver;
        const counts = await this.#counts(metric, this.#poolOf(pool));
        const floorOf = (worker: StatorProcess): number => above ?? before.get(worker) ?? 0;
        return [...counts].find(([worker, count]) => count > floorOf(worker)) ?? (wasOver && 'missed');
      },
      { what: `a request ${stage}`, pollMs: POLL_MS },
    );
    return found === 'missed' ? undefined : found[0];
  }

  /** The worker of the first pool that has answered something since `before`. */
  async #answerer(before: ReadonlyMap<StatorProcess, number>): Promise<StatorProcess> {
    const counts = await this.#counts(FIRST_RESPONSES, this.#poolOf('first'));
    const found = [...counts].find(([worker, count]) => count > (before.get(worker) ?? 0));
    if (found === undefined) throw new Error('no prompt was computed');
    return found[0];
  }

  async #counts(metric: string, role?: Role): Promise<ReadonlyMap<StatorProcess, number>> {
    const read = async (worker: StatorProcess) => [worker, await worker.metric(metric)] as const;
    return new Map(await Promise.all(this.#workersOf(role).map(read)));
  }

  #workersOf(role: Role | undefined): readonly StatorProcess[] {
    const chosen = [...this.#workers].filter(([, of]) => role === undefined || of === role);
    return chosen.map(([worker]) => worker);
  }

  /** Two workers in each pool. */
  async #fill(): Promise<void> {
    const missing = this.#pools.flatMap((role) => {
      return Array.from({ length: 2 - this.#workersOf(role).length }, () => role);
    });
    await Promise.all(missing.map(async (role) => this.#workers.set(await this.#startWorker(role), role)));
  }

  async #startWorker(role: Role): Promise<StatorProcess> {
    const { isMortal, hasProxies, workerArgs = [] } = this.#options;
    const args = [`--disaggregation-mode=${role}`, ...PACE, ...workerArgs];
    if (isMortal) return startMortal(this.fleet, { ...FAST, ...this.#options.env }, args);
    const worker = await this.fleet.worker(args);
    if (hasProxies) this.proxies.set(worker, await relay(this.fleet, worker));
    return worker;
  }
}

/** By what a request shows that it has come to a stage. */
interface Sign {
  readonly pool: 'first' | 'last';
  readonly metric: string;
  /** Value that the metric of its worker must exceed. @default its value before the request */
  readonly above?: number;
  /** Whether the test tells its worker to stop. @default no */
  readonly drains?: true;
  /** Most answers run on for a third of a second after their first token; the last ones end with the second. */
  readonly maxTokens: number;
}

const SIGNS: Readonly<Record<Stage, Sign>> = {
  queued: { pool: 'first', metric: INFLIGHT, above: 1, maxTokens: 40 },
  'before the first token': { pool: 'first', metric: INFLIGHT, above: 0, maxTokens: 40 },
  'in prefill': { pool: 'first', metric: CACHE_USAGE, above: 0, maxTokens: 40 },
  'during a prefill drain': { pool: 'first', metric: CACHE_USAGE, above: 0, drains: true, maxTokens: 40 },
  [TRANSFER]: { pool: 'last', metric: INFLIGHT, above: 0, maxTokens: 40 },
  'in mid-stream': { pool: 'last', metric: FIRST_RESPONSES, maxTokens: 80 },
  'at the last token': { pool: 'last', metric: FIRST_RESPONSES, maxTokens: 2 },
  'during a drain': { pool: 'last', metric: FIRST_RESPONSES, drains: true, maxTokens: 80 },
};

async function startMortal(
  fleet: Fleet,
  env: Readonly<Record<string, string>>,
  args: readonly string[],
): Promise<StatorProcess> {
  const model = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));
  const child = await spawnTypeScript(
    new URL('mortal-worker.ts', import.meta.url),
    ['--engine=mocker', '--mock-output=random', `--model-path=${model}`, '--model-name=stator-mini', ...args],
    {
      env: {
        ...env,
        DYN_DISCOVERY_BACKEND: 'file',
        DYN_FILE_KV: fleet.fileKv,
        DYN_TCP_RPC_HOST: '127.0.0.1',
        DYN_EVENT_PLANE_HOST: '127.0.0.1',
        DYN_SYSTEM_HOST: '127.0.0.1',
        DYN_SYSTEM_PORT: '0',
      },
    },
  );
  return fleet.adopt(child);
}

/** Has frontends reach a worker through a relay: its address in discovery becomes the relay's. */
async function relay(fleet: Fleet, worker: StatorProcess): Promise<TcpProxy> {
  const bucket = join(fleet.fileKv, 'stator/v1/instances');
  let proxy: TcpProxy | undefined;
  for (const name of readdirSync(bucket)) {
    const file = join(bucket, name);
    if (name.startsWith('.') || !name.includes(worker.instanceId)) continue;
    const text = readFileSync(file, 'utf8');
    const [address = '', port] = text.match(/127\.0\.0\.1:(\d+)/) ?? [];
    proxy ??= await startTcpProxy({ host: '127.0.0.1', port: Number(port) });
    writeFileSync(`${bucket}/.relay`, text.replaceAll(address, `127.0.0.1:${proxy.port}`));
    renameSync(`${bucket}/.relay`, file);
  }
  if (proxy === undefined) throw new Error(`no record of worker ${worker.instanceId}`);
  return proxy;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

function countsOf(usage: Usage | null | undefined): readonly (number | undefined)[] {
  return [usage?.prompt_tokens, usage?.completion_tokens];
}

async function readStream(response: Response): Promise<Answer> {
  if (response.status !== 200) return readUnary(response);
  let text = '';
  let finishReason: string | undefined;
  let usage: Usage | null | undefined;
  let error: unknown;
  for await (const data of sseData(response)) {
    if (data === '[DONE]') return { status: 200, text, finishReason, usage: countsOf(usage), error };
    const chunk = JSON.parse(data) as {
      readonly error?: unknown;
      readonly usage?: Usage | null;
      readonly choices?: readonly { readonly delta: { readonly content?: string }; readonly finish_reason?: string }[];
    };
    const [choice] = chunk.choices ?? [];
    text += choice?.delta.content ?? '';
    finishReason = choice?.finish_reason ?? finishReason;
    usage = chunk.usage ?? usage;
    error = chunk.error ?? error;
  }
  throw new Error('the stream broke off');
}

async function readUnary(response: Response): Promise<Answer> {
  const body = (await response.json()) as {
    readonly error?: unknown;
    readonly usage?: Usage;
    readonly choices?: readonly { readonly message: { readonly content: string }; readonly finish_reason: string }[];
  };
  const [choice] = body.choices ?? [];
  const { status } = response;
  return {
    status,
    text: choice?.message.content ?? '',
    finishReason: choice?.finish_reason,
    usage: countsOf(body.usage),
    error: body.error,
  };
}

/** The client notices nothing: the same text, the same usage. */
export async function expectWhole({ answer, whole }: Run): Promise<void> {
  expect(await answer).toEqual(whole);
}
