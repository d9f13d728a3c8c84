import type { Process } from '../row.ts';
import type { SettingName } from '../table.ts';
import type { Environment } from '../values/value-type.ts';
import { splitWord } from '../values/words.ts';
import { flagsOfEngine } from './engine-flags.ts';
import { EngineLine } from './engine-line.ts';
import { ATTACHED, type FlagUse, type LineFindings, type NamedEngine, OwnFlags } from './own-flags.ts';

/** What a command line says. */
export interface CommandLine {
  readonly uses: ReadonlyMap<SettingName, readonly FlagUse[]>;
  /** Arguments of an engine that is started, or what stands after `--`. */
  readonly rest: readonly string[];
}

/** Arguments of an engine that a file holds. */
export interface FileArguments {
  readonly argv: readonly string[];
  /** How messages name it. */
  readonly source: string;
}

/** The text of a flag that takes one, in the arguments before `--`; the last one counts. */
export function textOfFlag(argv: readonly string[], flag: string): string | undefined {
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const at = own.findLastIndex((argument) => splitWord(argument).typed === flag);
  return at < 0 ? undefined : (splitWord(own[at]!).text ?? own[at + 1]);
}

/** The engine that flags or variables name, of a process that has one. */
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
 * Reads the arguments of `process`: every flag with its text, in order, and every argument that fits nowhere. Not by
 * `parseArgs` of `node:util`, to which `--a --b` is the flag `--a` with the value `--b`, `-abc` three flags, and what follows an
 * unknown flag an argument of its own: telling these apart again takes more lines than splitting at `=`.
 *
 * @param file arguments for an engine that is started, which count less than flags
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
