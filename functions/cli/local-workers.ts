import { type ChildProcess, spawn } from 'node:child_process';
import { systemClock } from '../../shared/clock/index.ts';
import type { Logger } from '../../shared/telemetry/index.ts';
import { readReport } from './worker-report.ts';

export interface WorkerProcessesOptions {
  /** Arguments of each `stator worker`. */
  readonly workers: readonly (readonly string[])[];
  /** Pause between starting two of them. @default 0 */
  readonly staggerMs?: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
  /** Ctrl-C in this terminal does not reach them: it means something other than the end. @default false */
  readonly hasOwnTerminal?: boolean;
}

/** A worker that dies sooner than this after its start is replaced only after a pause. */
const SETTLED_MS = 2000;
const RESTART_PAUSE_MS = 1000;
/** Longest wait for a worker to drain before it is killed. */
const STOP_MS = 10_000;

/**
 * Worker processes of `stator local`: started together, ended with their parent.
 *
 * | State of a worker | says that it failed, or dies | dies as a replacement |
 * |---|---|---|
 * | starting | everything ends, `failed` says why | replaced after a pause |
 * | ready | replaced; after a pause when it was young | the same |
 */
export class WorkerProcesses {
  /** Resolves with one line when a worker cannot be started at all. */
  readonly failed: Promise<string>;
  readonly #options: WorkerProcessesOptions;
  readonly #children = new Set<ChildProcess>();
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

  /** Replaces no worker any more: one that ends was told to. */
  retire(): void {
    this.#isStopping = true;
  }

  async stop(): Promise<void> {
    this.retire();
    await Promise.all([...this.#children].map(endProcess));
  }

  #spawn(argv: readonly string[], turn: 'first' | 'replacement'): void {
    if (this.#isStopping) return;
    const startedMs = systemClock.nowMs();
    const child = this.#startChild(argv);
    let isReady = false;
    let reason: string | undefined;
    child.on('message', (message) => {
      const report = readReport(message);
      if (report?.kind === 'ready') isReady = true;
      else reason = report?.reason;
    });
    child.once('error', (error) => {
      reason = error.message;
      if (child.pid === undefined) this.#fail(`a worker cannot be started: ${reason}`); // no exit follows
    });
    child.once('exit', (code, signal) => {
      this.#children.delete(child);
      if (this.#isStopping) return;
      if (!isReady && turn === 'first') {
        this.#fail(reason ?? `a worker ended with ${signal ?? `exit code ${code}`} before it was ready`);
        return;
      }
      this.#options.logger.warn('a worker died; starting another', { code, signal, reason });
      const pauseMs = systemClock.nowMs() - startedMs < SETTLED_MS ? RESTART_PAUSE_MS : 0;
      systemClock.after(pauseMs, () => this.#spawn(argv, 'replacement'));
    });
  }

  #startChild(argv: readonly string[]): ChildProcess {
    const { env, hasOwnTerminal = false } = this.#options;
    const entry = process.argv[1];
    if (entry === undefined) throw new Error('cannot find the stator program to start workers with');
    // The IPC channel carries one report. Its end tells the worker that its parent is gone, however the parent died.
    const child = spawn(process.execPath, [...process.execArgv, entry, 'worker', ...argv], {
      env: env as NodeJS.ProcessEnv, // unset names are left out by spawn
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      detached: hasOwnTerminal,
    });
    this.#children.add(child);
    return child;
  }
}

/** Lets a worker drain and end. By the channel, not by a signal: after the Ctrl-C that reached it too, one would kill it. */
async function endProcess(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  if (child.connected) child.disconnect();
  const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(impatient);
}
