import { type SpawnOptions, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

/** A program or environment that some suites need, and that the test run fetches or builds once per user. */
export interface Tool {
  readonly name: string;
  /** Variable in which suites find it. If the variable is set already, its value wins and nothing is prepared. */
  readonly variable: string;
  /** Suites that do not run without it, for the closing lines. */
  readonly neededBy: string;
  /** Returns the path of a ready installation, or undefined. Takes milliseconds. */
  findInstalled(): Promise<string | undefined>;
  /** Installs it and returns the path. Throws an error whose message says in one line what is missing. */
  install(): Promise<string>;
}

/** Returns the folder of the per-user cache: `${XDG_CACHE_HOME:-~/.cache}/stator`. */
export function cacheRoot(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'stator');
}

/** Returns `path` if `mode` allows access to it, otherwise undefined. */
export async function pathIfPresent(path: string, mode = constants.R_OK): Promise<string | undefined> {
  try {
    await access(path, mode);
    return path;
  } catch {
    return undefined; // an absent file is a valid answer
  }
}

/** Returns the path of a program on PATH; undefined if there is none. */
export async function programOnPath(name: string): Promise<string | undefined> {
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const found = await pathIfPresent(join(directory, name), constants.X_OK);
    if (directory !== '' && found !== undefined) return found;
  }
  return undefined;
}

/** Runs a command to its end. Throws with the last line of its output if it fails or exceeds `timeoutMs`. */
export async function runCommand(
  command: string,
  args: readonly string[],
  options: { readonly timeoutMs: number } & Pick<SpawnOptions, 'cwd' | 'env'>,
): Promise<void> {
  const { timeoutMs, ...spawnOptions } = options;
  const child = spawn(command, args, { ...spawnOptions, stdio: ['ignore', 'pipe', 'pipe'] });
  // The timer of spawn's own `timeout` would outlive a program that cannot be started.
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
