import { open } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { EngineProcess } from './engine-process.ts';
import { isMissing, type KnownReleases, type LaunchPlan, missingText, type OptionalArgument } from './launch-plan.ts';

/** Limit for asking the interpreter, which only reads a folder. */
const METADATA_MS_MAX = 15_000;
/** Limit for asking the program, which loads half of its code before it answers. */
const PROGRAM_MS_MAX = 60_000;
const LINES_MAX = 20_000;
const HEAD_BYTES = 1024;

/** Answer of a program: its output, and how it ended. */
interface Answer {
  readonly text: string;
  readonly isWhole: boolean;
  readonly isLate: boolean;
}

type Ask = (words: readonly [string, ...string[]], limitMs: number) => Promise<Answer>;

interface LearnDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Facts about an engine that were learned before it loads. */
export interface Learned {
  /** Version in the engine's own words; undefined when it gave none. */
  readonly version: string | undefined;
  /** Optional arguments that it supports. */
  readonly optional: readonly OptionalArgument[];
}

/**
 * Learns which arguments an engine supports before it loads: a start that fails on an argument takes as long as
 * importing all its libraries. The interpreter of the program knows the version at once; if the interpreter cannot be
 * found, the program is asked. For a release outside the table, the list of arguments is read. A program without an
 * answer counts as the oldest release. Rejects when the engine is not installed.
 */
export async function learnArguments(plan: LaunchPlan, deps: LearnDeps): Promise<Learned> {
  const ask: Ask = (words, limitMs) => answerOf(words, limitMs, plan, deps);
  const { program, optional, releases } = plan;
  if (optional.length === 0) return { version: undefined, optional };
  const asked = await askVersion(plan, ask);
  const { version } = asked;
  if (version !== undefined && isWithin(version, releases)) {
    return { version, optional: optional.filter(({ since }) => compare(version, since) >= 0) };
  }
  // A program that hangs when asked for its version would hang again.
  const help = asked.isLate ? undefined : await ask([...program, ...plan.helpArguments], PROGRAM_MS_MAX);
  const listed = help === undefined ? new Set<string>() : flagsIn(help.text);
  if (listed.has('--port')) return { version, optional: optional.filter(({ words: [flag] }) => listed.has(flag)) };
  const from = releases.oldest;
  deps.logger.info('the engine did not list its arguments: starting it as the oldest release', {
    version,
    oldest: from,
  });
  return { version, optional: optional.filter(({ since }) => compare(from, since) >= 0) };
}

async function askVersion(
  { program, packageName }: LaunchPlan,
  ask: Ask,
): Promise<{ readonly version: string | undefined; readonly isLate: boolean }> {
  const interpreter = await interpreterOf(program);
  if (interpreter !== undefined) {
    const code = `import importlib.metadata as m; print("version", m.version(${JSON.stringify(packageName)}))`;
    const { text } = await ask([...interpreter, '-c', code], METADATA_MS_MAX);
    const version = /^version (\S+)$/m.exec(text)?.[1];
    if (version !== undefined) return { version, isLate: false };
  }
  const { text, isWhole, isLate } = await ask([...program, '--version'], PROGRAM_MS_MAX);
  return { version: isWhole ? /^(?:\S+ )?v?(\d+(?:\.\w+)+(?:\+\S+)?)\s*$/m.exec(text)?.[1] : undefined, isLate };
}

/** The last form is how installers write a script whose interpreter has a path that is too long for the system. */
const SHEBANGS = [
  /^#!\s*(\S*python[\d.]*)\s/,
  /^#!\s*\S*\/env (?:-S )?(python[\d.]*)\s/,
  /\n'''exec' "?([^"\s]*python[\d.]*)"? /,
];

/** Returns the words that run the Python of `program`; undefined when it does not show one. */
async function interpreterOf([first, ...rest]: LaunchPlan['program']): Promise<LaunchPlan['program'] | undefined> {
  const at = rest.indexOf('-m');
  if (at >= 0) return [first, ...rest.slice(0, at)];
  const line = await firstLines(await pathOf(rest.at(-1) ?? first));
  const python = SHEBANGS.map((shebang) => shebang.exec(line)?.[1]).find((found) => found !== undefined);
  if (python === undefined) return undefined;
  return rest.length === 0 ? [python] : [first, ...rest.slice(0, -1), python];
}

async function pathOf(word: string): Promise<string> {
  if (isAbsolute(word) || word.includes('/')) return word;
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, word);
    if ((await firstLines(path)) !== '') return path;
  }
  return word;
}

/** Returns the beginning of a file, or nothing when it cannot be read. */
async function firstLines(path: string): Promise<string> {
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.toString('latin1', 0, bytesRead);
  } catch {
    return ''; // then the program itself is asked
  }
}

/** Runs a program in a process group of its own, like an engine, so that none of its processes outlive its answer. */
async function answerOf(
  words: readonly [string, ...string[]],
  limitMs: number,
  plan: LaunchPlan,
  deps: LearnDeps,
): Promise<Answer> {
  const { clock, signal } = deps;
  const [program, ...args] = words;
  const lines: string[] = [];
  const onLine = (line: string): void => void (lines.length < LINES_MAX && lines.push(line));
  const asked = new EngineProcess({ command: { program, args, env: {} }, clock, onLine });
  try {
    const end = await untilAborted(asked.endedWithin(limitMs), signal);
    const isProgram = plan.program.every((word, at) => word === words[at]); // not its interpreter, which may have moved
    if (end !== undefined && isProgram && isMissing(end, plan)) throw new Error(missingText(plan));
    return { text: lines.join('\n'), isWhole: end?.code === 0, isLate: end === undefined };
  } finally {
    await asked.stop(0);
  }
}

/** Returns the flags in a list of arguments. */
function flagsIn(help: string): ReadonlySet<string> {
  return new Set(help.match(/--[a-z][\w-]*/g));
}

/** Returns whether `version` is a release of the table; builds between releases are not. */
function isWithin(version: string, { oldest, newest }: KnownReleases): boolean {
  const isRelease = /^\d+(\.\d+)*(\.post\d+)?(\+.*)?$/.test(version);
  return isRelease && compare(version, oldest) >= 0 && compare(version, newest) <= 0;
}

/** Compares versions, by as many numbers as `other` has; below 0 when `version` is older. */
function compare(version: string, other: string): number {
  const ours = numbersOf(version);
  for (const [at, number] of numbersOf(other).entries()) {
    const difference = (ours[at] ?? 0) - number;
    if (difference !== 0) return difference;
  }
  return 0;
}

function numbersOf(version: string): readonly number[] {
  return (/^[\d.]+/.exec(version)?.[0] ?? '').split('.').map(Number);
}
