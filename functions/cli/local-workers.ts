import { type ChildProcess, spawn } from 'node:child_process';
import { systemClock } from '../../shared/clock/index.ts';
import { ConfigError, type Settings } from '../../shared/config/index.ts';
import type { ScalableWorkers } from '../../shared/planner/index.ts';
import type { Logger } from '../../shared/telemetry/index.ts';

interface WorkerProcessesOptions {
  /** Arguments of each `stator worker`; later workers have those of the first. */
  readonly workers: readonly (readonly string[])[];
  /** Pause between the starts of two workers. @default 0 */
  readonly staggerMs?: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
  /** Whether Ctrl-C in this terminal does not reach the workers, because it does not mean the end. @default false */
  readonly hasOwnTerminal?: boolean;
  /** Program to start with `worker` and the arguments. @default the one that runs */
  readonly entry?: string | undefined;
}

/** A worker that dies sooner than this after its start is replaced only after a pause, in milliseconds. */
const SETTLED_MS = 2000;
const RESTART_PAUSE_MS = 1000;
/** Longest wait for a worker to drain at the end, before it is killed. */
const STOP_MS = 10_000;
/** Starts whose times are remembered. */
const STARTS_KEPT = 20;

/**
 * Worker processes of `stator local`: started together, ended with their parent.
 *
 * | State of a worker | says that it failed, or dies | dies as a replacement |
 * |---|---|---|
 * | starting | everything ends, `failed` says why | replaced after a pause |
 * | ready | replaced; after a pause when it was young | the same |
 * | draining | gone | the same |
 */
export class WorkerProcesses implements ScalableWorkers {
  /** Resolves with one line if a worker cannot be started at all. */
  readonly failed: Promise<string>;
  readonly #options: WorkerProcessesOptions;
  readonly #children = new Map<ChildProcess, 'starting' | 'ready' | 'draining'>();
  readonly #startSeconds: number[] = [];
  /** Number of workers that start again after a pause. */
  #pausing = 0;
  #isStopping = false;
  #fail: (reason: string) => void = () => {};

  constructor(options: WorkerProcessesOptions) {
    this.#options = options;
    this.failed = new Promise((resolve) => {
      this.#fail = resolve;
    });
  }

  start(): void {
    const { workers, staggerMs = 0 } = this.#options;
    workers.forEach((argv, at) => {
      if (at === 0 || staggerMs === 0) this.#spawn(argv, 'first');
      else systemClock.after(at * staggerMs, () => this.#spawn(argv, 'first'));
    });
  }

  get ready(): number {
    return this.#count('ready');
  }

  get starting(): number {
    return this.#count('starting') + this.#pausing;
  }

  get startSeconds(): number | undefined {
    const sorted = this.#startSeconds.toSorted((one, other) => one - other);
    return sorted[Math.min(sorted.length - 1, Math.floor(0.9 * sorted.length))];
  }

  /**
   * Starts or drains workers until there are `count`. It drains the youngest first, because their caches know least;
   * they finish what they have begun.
   */
  scaleTo(count: number): void {
    const [argv] = this.#options.workers;
    const surplus = this.ready + this.starting - count;
    for (let missing = -surplus; missing > 0 && argv !== undefined; missing--) this.#spawn(argv, 'replacement');
    const serving = [...this.#children].filter(([, state]) => state !== 'draining').map(([child]) => child);
    for (const child of serving.toReversed().slice(0, Math.max(0, surplus))) {
      this.#children.set(child, 'draining');
      if (child.connected) child.disconnect();
    }
  }

  #count(state: 'starting' | 'ready'): number {
    let count = 0;
    for (const each of this.#children.values()) if (each === state) count++;
    return count;
  }

  /** Stops replacing workers: from now on a worker that ends was stopped on purpose. */
  retire(): void {
    this.#isStopping = true;
  }

  async stop(): Promise<void> {
    this.retire();
    await Promise.all([...this.#children.keys()].map(endProcess));
  }

  #spawn(argv: readonly string[], turn: 'first' | 'replacement'): void {
    if (this.#isStopping) return;
    const startedMs = systemClock.nowMs();
    const child = this.#startChild(argv);
    let isReady = false;
    let reason: string | undefined;
    child.on('message', (message) => {
      const report = readReport(message);
      if (report?.kind === 'ready') {
        isReady = true;
        this.#startSeconds.push((systemClock.nowMs() - startedMs) / 1000);
        if (this.#startSeconds.length > STARTS_KEPT) this.#startSeconds.shift();
        if (this.#children.get(child) === 'starting') this.#children.set(child, 'ready');
      }
      if (report?.kind === 'failed') reason = report.reason;
    });
    child.once('error', (error) => {
      reason = error.message;
      if (child.pid === undefined) this.#fail(`a worker cannot be started: ${reason}`); // no exit event follows
    });
    child.once('exit', (code, signal) => {
      const isDraining = this.#children.get(child) === 'draining';
      this.#children.delete(child);
      if (this.#isStopping || isDraining) return;
      if (!isReady && turn === 'first') {
        this.#fail(reason ?? `a worker ended with ${signal ?? `exit code ${code}`} before it was ready`);
        return;
      }
      this.#options.logger.warn('a worker died; starting another', { code, signal, reason });
      const pauseMs = systemClock.nowMs() - startedMs < SETTLED_MS ? RESTART_PAUSE_MS : 0;
      this.#pausing++;
      systemClock.after(pauseMs, () => {
        this.#pausing--;
        this.#spawn(argv, 'replacement');
      });
    });
  }

  #startChild(argv: readonly string[]): ChildProcess {
    const { env, hasOwnTerminal = false, entry = process.argv[1] } = this.#options;
    if (entry === undefined) throw new Error('cannot find the stator program to start workers with');
    // The IPC channel carries one report. Its end tells the worker that its parent is gone, however the parent died.
    const child = spawn(process.execPath, [...process.execArgv, entry, 'worker', ...argv], {
      env: env as NodeJS.ProcessEnv, // unset names are left out by spawn
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      detached: hasOwnTerminal,
    });
    this.#children.set(child, 'starting');
    return child;
  }
}

/**
 * Lets a worker drain and end. It uses the channel, not a signal: if a Ctrl-C has also reached the worker, a signal
 * would kill it.
 */
async function endProcess(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  if (child.connected) child.disconnect();
  const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(impatient);
}

/** The workers of `stator local`. */
export interface LocalFleet {
  /** Workers for clients' requests, and workers that compute prompts for those. */
  readonly workers: number;
  readonly prefillWorkers: number;
  /** Arguments of each worker, prefill workers first. */
  readonly argv: readonly (readonly string[])[];
}

/** Flags with a port for each worker, which each get their own. */
const PER_WORKER = /^--(bootstrap-ports|zmq-kv-events-ports|zmq-replay-ports)=/;

/**
 * Returns the workers to start, with the arguments of each.
 * @param shared arguments of every worker
 * @param behind arguments of its engine
 * @throws ConfigError for fewer ports than workers
 */
export function localFleet(
  settings: Settings<'local'>,
  shared: readonly string[],
  behind: readonly string[] = [],
): LocalFleet {
  const { engine, numPrefillWorkers: prefillWorkers = 0, numDecodeWorkers, numWorkers } = settings;
  const { planner, minWorkers } = settings;
  // A planner begins with the fewest workers, except for one that makes the model known.
  const started = planner ? Math.max(1, minWorkers) : numWorkers;
  const workers = numDecodeWorkers ?? (engine === 'openai' && !planner ? 1 : started);
  const common = shared.filter((argument) => !PER_WORKER.test(argument));
  const argv = Array.from({ length: prefillWorkers + workers }, (_, at) => [
    ...common,
    ...(numDecodeWorkers === undefined ? [] : [`--disaggregation-mode=${at < prefillWorkers ? 'prefill' : 'decode'}`]),
    ...portsOf(settings, at, prefillWorkers),
    ...(behind.length === 0 ? [] : ['--', ...behind]),
  ]);
  return { workers, prefillWorkers, argv };
}

function portsOf(settings: Settings<'local'>, at: number, prefillWorkers: number): readonly string[] {
  const { bootstrapPorts, zmqKvEventsPorts, zmqReplayPorts } = settings;
  return [
    ...(at < prefillWorkers ? portOf('--bootstrap-ports', bootstrapPorts, at) : []),
    ...portOf('--zmq-kv-events-ports', zmqKvEventsPorts, at),
    ...portOf('--zmq-replay-ports', zmqReplayPorts, at),
  ];
}

function portOf(flag: string, ports: readonly number[] | undefined, at: number): readonly string[] {
  if (ports === undefined) return [];
  const port = ports[at];
  if (port === undefined) throw new ConfigError([`${flag}: one port is needed for each worker, got ${ports.length}`]);
  return [`${flag}=${port}`];
}

/** Report of a worker to the `stator local` that started it, sent once. */
type WorkerReport = { readonly kind: 'ready' } | { readonly kind: 'failed'; readonly reason: string };

/**
 * Sends a report to the parent that holds the IPC channel. Returns false in a process without a channel, and true if
 * the parent has closed it, because the parent then needs no report.
 */
export function reportToParent(report: WorkerReport): Promise<boolean> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve(process.connected === false);
    else process.send(report, undefined, {}, () => resolve(true)); // fails only if the channel has closed meanwhile
  });
}

/** Reads the report in a message of a child. */
function readReport(message: unknown): WorkerReport | undefined {
  const { kind, reason } = (message ?? {}) as Readonly<Record<string, unknown>>;
  if (kind === 'ready') return { kind };
  return kind === 'failed' && typeof reason === 'string' ? { kind, reason } : undefined;
}
