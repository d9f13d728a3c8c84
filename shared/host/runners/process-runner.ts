import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { isRecord } from '../../records/index.ts';
import { FollowedFile, OutputTail } from './followed-file.ts';
import type { ReplicaEnd, ReplicaRunner, ReplicaSpec, RunningReplica } from './types.ts';

interface ProcessRunnerOptions {
  /** Folder for logs and process ids. */
  readonly folder: string;
  readonly clock: Clock;
  /** Program and first arguments that run `stator`. */
  readonly program: readonly [string, ...string[]];
}

/** A process as the system knows it. A number may belong to another process later, so its start counts too. */
interface ProcessMark {
  readonly pid: number;
  /** Ticks from the boot to its start; undefined on systems without `/proc`. */
  readonly startTicks: string | undefined;
}

const LOOK_MS = 250;

/** Runs workers as processes of this machine, each the leader of a process group of its own. */
export class ProcessRunner implements ReplicaRunner {
  readonly kind = 'process';
  readonly #options: ProcessRunnerOptions;

  constructor(options: ProcessRunnerOptions) {
    this.#options = options;
  }

  async prepare(): Promise<void> {} // the program is here already

  async start({ index, args, env, gpus }: ReplicaSpec, onOutput: (text: string) => void): Promise<RunningReplica> {
    const { folder, program } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const log = this.#logOf(index);
    await rm(log, { force: true });
    const output = openSync(log, 'a', 0o600);
    const [command, ...first] = program;
    const devices = gpus.length === 0 ? {} : { CUDA_VISIBLE_DEVICES: gpus.join(',') };
    try {
      const child = spawn(command, [...first, 'worker', ...args], {
        env: { ...env, ...devices },
        stdio: ['ignore', output, output],
        detached: true, // signals to the agent's group, such as Ctrl-C, are not meant for it
      });
      const { pid } = child;
      if (pid === undefined) return neverStarted(child);
      child.unref();
      const mark = { pid, startTicks: startTicksOf(pid) };
      await writeFile(this.#markOf(index), JSON.stringify(mark), { mode: 0o600 });
      const exited = new Promise<number | undefined>((resolve) => {
        child.once('exit', (code) => resolve(code ?? undefined));
      });
      return this.#follow(index, mark, exited, onOutput, 0);
    } finally {
      closeSync(output);
    }
  }

  async adopt(index: number, onOutput: (text: string) => void): Promise<RunningReplica | undefined> {
    const mark = readMark(await readFile(this.#markOf(index), 'utf8').catch(() => ''));
    if (mark === undefined || !isAlive(mark)) return undefined;
    // What came before was for another agent.
    const { size } = await stat(this.#logOf(index)).catch(() => ({ size: 0 }));
    const gone = new Promise<undefined>((resolve) => {
      const timer = this.#options.clock.every(LOOK_MS, () => {
        if (isAlive(mark)) return;
        timer.cancel();
        resolve(undefined);
      });
    });
    return this.#follow(index, mark, gone, onOutput, size);
  }

  #follow(
    index: number,
    mark: ProcessMark,
    exited: Promise<number | undefined>,
    onOutput: (text: string) => void,
    from: number,
  ): RunningReplica {
    const tail = new OutputTail();
    const onText = (text: string): void => {
      tail.push(text);
      onOutput(text);
    };
    const followed = new FollowedFile(this.#logOf(index), this.#options.clock, onText, from);
    const ended = exited.then(async (code): Promise<ReplicaEnd> => {
      send(-mark.pid, 'SIGKILL'); // its other processes are useless without it
      await followed.close();
      await rm(this.#markOf(index), { force: true });
      return { code, reason: `ended with ${code ?? 'a signal, or out of sight'}: ${tail.lines}` };
    });
    return {
      name: String(mark.pid),
      ended,
      signal: async (name) => {
        if (isAlive(mark)) send(name === 'SIGKILL' ? -mark.pid : mark.pid, name);
      },
      release: () => void followed.close(),
    };
  }

  #logOf(index: number): string {
    return join(this.#options.folder, `worker-${index}.log`);
  }

  #markOf(index: number): string {
    return join(this.#options.folder, `worker-${index}.json`);
  }
}

/** Returns a worker whose program the system could not start. */
async function neverStarted(child: ChildProcess): Promise<RunningReplica> {
  const reason = await new Promise<string>((resolve) => child.once('error', (error) => resolve(error.message)));
  const end = { code: undefined, reason: `cannot be started: ${reason}` };
  return { name: 'none', ended: Promise.resolve(end), signal: async () => {}, release: () => {} };
}

function readMark(text: string): ProcessMark | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isRecord(value) || !Number.isSafeInteger(value.pid) || Number(value.pid) < 2) return undefined;
    const { startTicks } = value;
    return { pid: Number(value.pid), startTicks: typeof startTicks === 'string' ? startTicks : undefined };
  } catch {
    return undefined; // the agent died while it wrote the file, right after it had started the worker
  }
}

/** Returns the field `starttime` of `/proc/PID/stat`, which follows the name in brackets; a zombie counts as gone. */
function startTicksOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function isAlive({ pid, startTicks }: ProcessMark): boolean {
  if (startTicks !== undefined) return startTicksOf(pid) === startTicks;
  return send(pid, 0);
}

/** Sends a signal; returns whether there is such a process. */
function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ESRCH' && code !== 'EPERM') throw error;
    return code === 'EPERM';
  }
}
