import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { waitUntil } from './wait-until.ts';

export interface SpawnOptions {
  /** Variables to add to the environment of the test run. Undefined removes a name. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/** A child process whose output is kept. It ends with the test process in every case. */
export interface SpawnedProcess {
  readonly pid: number;
  /** Returns standard output so far. */
  stdout(): string;
  /** Returns standard error so far. */
  stderr(): string;
  /** Writes to standard input. */
  write(text: string): void;
  /** Ends standard input, as Ctrl-D does. */
  endInput(): void;
  /**
   * Resolves with the first match of `pattern` in either output. Rejects with the output if the process ends or stays
   * silent too long.
   */
  waitForOutput(pattern: RegExp, timeoutMs?: number): Promise<RegExpMatchArray>;
  signal(signal: NodeJS.Signals): void;
  /** Exit code, or null after a signal. */
  readonly exited: Promise<number | null>;
  /** Sends SIGKILL and waits for the end. Idempotent. */
  kill(): Promise<void>;
}

const OUTPUT_CHARS_MAX = 1_000_000;
const alive = new Set<ChildProcess>();
process.on('exit', killChildren);
// The runner ends its processes with this signal, and a process that a signal ends has no `exit` event.
process.once('SIGTERM', () => {
  killChildren();
  process.kill(process.pid, 'SIGTERM');
});

/** Kills every child of this module that still runs. */
export function killChildren(): void {
  for (const child of alive) child.kill('SIGKILL');
}

/** Starts `node args...`. */
export function spawnNode(args: readonly string[], options: SpawnOptions = {}): SpawnedProcess {
  return spawnProgram(process.execPath, args, options);
}

/** Starts any program with the environment of the test run plus `options.env`. */
export function spawnProgram(command: string, args: readonly string[], options: SpawnOptions = {}): SpawnedProcess {
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  const output = { stdout: '', stderr: '' };
  child.stdin.on('error', () => {}); // the child left before it read; its exit tells the test
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.stdout = (output.stdout + text).slice(-OUTPUT_CHARS_MAX);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.stderr = (output.stderr + text).slice(-OUTPUT_CHARS_MAX);
  });
  alive.add(child);
  const exited = once(child, 'close').then(
    ([code]) => code as number | null,
    (error: Error) => {
      output.stderr += error.message;
      return null;
    },
  );
  const isOver = exited.then(() => void alive.delete(child));
  return {
    pid: child.pid ?? -1,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    write: (text) => void child.stdin.write(text),
    endInput: () => void child.stdin.end(),
    signal: (signal) => void child.kill(signal),
    exited,
    waitForOutput: (pattern, timeoutMs = 15_000) => waitForOutput(child, output, pattern, timeoutMs),
    async kill() {
      child.kill('SIGKILL');
      await isOver;
    },
  };
}

async function waitForOutput(
  child: ChildProcess,
  output: { readonly stdout: string; readonly stderr: string },
  pattern: RegExp,
  timeoutMs: number,
): Promise<RegExpMatchArray> {
  const match = (): RegExpMatchArray | undefined =>
    output.stdout.match(pattern) ?? output.stderr.match(pattern) ?? undefined;
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  try {
    const found = await waitUntil(() => match() ?? (hasEnded() ? ('ended' as const) : undefined), { timeoutMs });
    if (found !== 'ended') return found;
  } catch {
    // reported below, with the output
  }
  const last = match(); // output may follow the exit
  if (last !== undefined) return last;
  throw new Error(`no output like ${pattern} (exit ${child.exitCode})\n${output.stdout}\n${output.stderr}`);
}
