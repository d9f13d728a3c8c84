import { type ChildProcess, spawn } from 'node:child_process';
import type { Logger } from '../../shared/telemetry/index.ts';

export interface WorkerProcessesOptions {
  readonly count: number;
  /** Arguments of each `stator worker`. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
}

/** A worker that ran for this long and then died is started again; one that dies sooner is misconfigured. */
const SETTLED_MS = 2000;
/** Longest wait for a worker to drain before it is killed. */
const STOP_MS = 10_000;

/** Worker processes of `stator local`: started together, restarted when they die, ended with their parent. */
export class WorkerProcesses {
  /** Resolves with one line when a worker cannot be started. */
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

  get count(): number {
    return this.#options.count;
  }

  start(): void {
    for (let at = 0; at < this.#options.count; at++) this.#spawn();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#children].map(endProcess));
  }

  #spawn(): void {
    const { argv, env, logger } = this.#options;
    const startedMs = performance.now();
    const entry = process.argv[1];
    if (entry === undefined) throw new Error('cannot find the stator program to start workers with');
    // The IPC channel carries nothing: its end tells the worker that its parent is gone, however the parent died.
    const child = spawn(process.execPath, [...process.execArgv, entry, 'worker', ...argv], {
      env: env as NodeJS.ProcessEnv, // unset names are left out by spawn
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#children.add(child);
    child.once('error', (error) => this.#fail(`a worker cannot be started: ${error.message}`));
    child.once('exit', (code, signal) => {
      this.#children.delete(child);
      if (this.#isStopping) return;
      if (performance.now() - startedMs < SETTLED_MS) {
        this.#fail(`a worker ended at once with ${signal ?? `exit code ${code}`}; see its message above`);
        return;
      }
      logger.warn('a worker died; starting another', { code, signal });
      this.#spawn();
    });
  }
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await exited;
  clearTimeout(impatient);
}
