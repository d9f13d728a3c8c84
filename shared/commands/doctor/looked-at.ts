import { readFile } from 'node:fs/promises';
import type { Environment } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { parseFlags, UsageError } from '../config.ts';

/** Program that the doctor looks at. */
export interface LookedAt {
  readonly isJson: boolean;
  /** Command line of a program of Dynamo's. */
  readonly words: readonly string[];
  /** Environment of the program. */
  readonly env: Environment;
  /** Id of the program's process; undefined if a command line was given. */
  readonly pid?: string;
}

/**
 * Reads the arguments of `stator doctor`: a process by its id, or a command line behind `--` in the current
 * environment.
 *
 * @throws UsageError for a mistake in the arguments, or a process that cannot be read
 */
export async function readLookedAt(argv: readonly string[], env: Environment): Promise<LookedAt> {
  const end = argv.indexOf('--');
  const { values } = parseFlags({
    args: [...argv.slice(0, end < 0 ? undefined : end)],
    options: { pid: { type: 'string' }, json: { type: 'boolean' } },
  });
  const words = end < 0 ? [] : argv.slice(end + 1);
  const isJson = values.json === true;
  if (values.pid === undefined) return { isJson, words, env };
  if (!/^[1-9]\d{0,9}$/.test(values.pid))
    throw new UsageError(`--pid ${JSON.stringify(values.pid)}: allowed: a process id`);
  if (words.length > 0) throw new UsageError('give either --pid or a command line after --');
  return { isJson, pid: values.pid, ...(await readProcess(values.pid)) };
}

async function readProcess(pid: string): Promise<Pick<LookedAt, 'words' | 'env'>> {
  try {
    const [line, variables] = await Promise.all([readParts(pid, 'cmdline'), readParts(pid, 'environ')]);
    const pairs = variables
      .filter(Boolean)
      .map((variable) => [variable.split('=', 1)[0]!, variable.slice(variable.indexOf('=') + 1)]);
    return { words: line, env: Object.fromEntries(pairs) };
  } catch (thrown) {
    throw new UsageError(`--pid ${pid}: its command line and environment cannot be read: ${reasonOf(thrown)}`);
  }
}

/** Reads a file of `/proc` whose parts end in a zero byte. A part may be empty, as an argument may. */
async function readParts(pid: string, name: string): Promise<readonly string[]> {
  const parts = (await readFile(`/proc/${pid}/${name}`, 'utf8')).split('\0');
  return parts.at(-1) === '' ? parts.slice(0, -1) : parts;
}
