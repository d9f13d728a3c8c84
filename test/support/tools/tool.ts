import { type SpawnOptions, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** A program or environment that some suites need and that the test run fetches or builds once per user. */
export interface Tool {
  readonly name: string;
  /** Where suites find it; a value that is set already wins and nothing is prepared. */
  readonly variable: string;
  /** What does not run without it, for the closing lines. */
  readonly neededBy: string;
  /** Path of a ready installation, or undefined. Takes milliseconds. */
  findInstalled(): Promise<string | undefined>;
  /** Installs and returns the path; throws an error whose message says in one line what is missing. */
  install(): Promise<string>;
}

/** Folder of the per-user cache: `${XDG_CACHE_HOME:-~/.cache}/stator`. */
export function cacheRoot(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'stator');
}

/** `path` when it can be run or read as `mode` asks, else undefined. */
export async function pathIfPresent(path: string, mode = constants.R_OK): Promise<string | undefined> {
  try {
    await access(path, mode);
    return path;
  } catch {
    return undefined; // absence is the answer
  }
}

/** Runs a command to its end. Throws with the last line of its output when it fails or takes longer than `timeoutMs`. */
export async function runCommand(
  command: string,
  args: readonly string[],
  options: { readonly timeoutMs: number } & Pick<SpawnOptions, 'cwd' | 'env'>,
): Promise<void> {
  const { timeoutMs, ...spawnOptions } = options;
  const child = spawn(command, args, { ...spawnOptions, stdio: ['ignore', 'pipe', 'pipe'] });
  // Not spawn's own `timeout`, whose timer outlives a program that cannot be started.
  const deadline = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
  let tail = '';
  const keepTail = (chunk: Buffer): void => {
    tail = (tail + chunk.toString()).slice(-4000);
  };
  child.stdout.on('data', keepTail);
  child.stderr.on('data', keepTail);
  const failure = await new Promise<string | undefined>((resolve) => {
    child.on('error', (error) => resolve(`${command} cannot be started (${error.message})`));
    child.on('close', (code, signal) => {
      if (code === 0) return resolve(undefined);
      const lastLine = tail.trim().split('\n').at(-1) ?? '';
      resolve(`${command} ${args[0] ?? ''} ended with ${code ?? signal}: ${lastLine}`);
    });
  });
  clearTimeout(deadline);
  if (failure !== undefined) throw new Error(failure);
}
