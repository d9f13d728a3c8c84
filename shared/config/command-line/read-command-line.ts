import type { Process } from '../row.ts';
import type { SettingName } from '../table.ts';
import type { Environment } from '../values/value-type.ts';
import { splitWord } from '../values/words.ts';
import { flagsOfEngine } from './engine-flags.ts';
import { EngineLine } from './engine-line.ts';
import { ATTACHED, type FlagUse, type LineFindings, type NamedEngine, OwnFlags } from './own-flags.ts';

/** Contents of a command line. */
export interface CommandLine {
  readonly uses: ReadonlyMap<SettingName, readonly FlagUse[]>;
  /** Arguments of the started engine, or the arguments after `--`. */
  readonly rest: readonly string[];
}

/** Arguments of an engine from a file. */
export interface FileArguments {
  readonly argv: readonly string[];
  /** Name of the source in messages. */
  readonly source: string;
}

/** Returns the text of a flag with a value, from the arguments before `--`; the last one counts. */
export function textOfFlag(argv: readonly string[], flag: string): string | undefined {
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const at = own.findLastIndex((argument) => splitWord(argument).typed === flag);
  return at < 0 ? undefined : (splitWord(own[at]!).text ?? own[at + 1]);
}

/** Returns the engine that flags or variables name, for a process that has one. */
export function namedEngine(process: Process, argv: readonly string[], env: Environment): NamedEngine | undefined {
  if (process !== 'worker' && process !== 'local') return undefined;
  const flag = textOfFlag(argv, '--engine');
  const name = (flag ?? env.STATOR_ENGINE ?? '').trim();
  if (name === '') return undefined;
  const isAttached = (textOfFlag(argv, '--engine-url') ?? env.STATOR_ENGINE_URL ?? '') !== '';
  const given = flag === undefined ? `STATOR_ENGINE ${name}` : `--engine ${name}`;
  return { given, flags: flagsOfEngine(name), isAttached };
}

/**
 * Reads the arguments of `process`: every flag with its text, in order, and every argument that fits nowhere.
 *
 * It does not use `parseArgs` of `node:util`, which reads `--a --b` as the flag `--a` with the value `--b`, `-abc` as
 * three flags, and the value of an unknown flag as an argument of its own. Undoing that takes more lines than splitting
 * at `=`.
 *
 * @param file arguments for the started engine, which yield to flags
 */
export function readCommandLine(
  process: Process,
  argv: readonly string[],
  env: Environment,
  file: FileArguments | undefined,
  findings: LineFindings,
): CommandLine {
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const behind = end < 0 ? [] : argv.slice(end + 1);
  const engine = namedEngine(process, argv, env);
  const flags = new OwnFlags(process, engine, findings);
  let rest: readonly string[] = behind;
  if (engine?.flags === undefined || engine.isAttached) {
    for (let at = 0; at < own.length; ) at += flags.take(own, at);
    if (engine?.isAttached === true && behind.length > 0) {
      findings.problems.push(`${behind.join(' ')} cannot be passed on: ${ATTACHED}`);
    }
  } else {
    const line = new EngineLine(engine.flags, flags, findings);
    if (file !== undefined) line.read(file.argv, 'file', file.source);
    line.read(own, 'own');
    line.read(behind, 'rest');
    rest = line.finish();
  }
  flags.finish();
  return { uses: flags.uses, rest };
}
