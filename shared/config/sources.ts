import { nearestName } from '../errors/index.ts';
import type { FlagUse } from './command-line/own-flags.ts';
import { type FileArguments, readCommandLine } from './command-line/read-command-line.ts';
import { commandOf, type Process, type Row } from './row.ts';
import { rowsOf, type SettingName, TABLE } from './table.ts';
import { findUnbuilt, sayUnbuilt, unbuiltNames } from './unbuilt.ts';
import type { Environment } from './values/value-type.ts';
import type { Findings, Given } from './view.ts';

/** Chooses among texts under several names of one setting: the first name in the row wins. */
function chooseName(
  kind: Given['kind'],
  names: readonly string[],
  textsByName: ReadonlyMap<string, readonly string[]>,
  warnings: string[],
): Given | undefined {
  const present = names.filter((name) => textsByName.has(name));
  const winner = present[0];
  if (winner === undefined) return undefined;
  const texts = textsByName.get(winner)!;
  for (const other of present.slice(1)) {
    if (textsByName.get(other)!.at(-1) !== texts.at(-1)) {
      warnings.push(`${winner} and ${other} name the same setting and differ: ${winner} is used`);
    }
  }
  return { kind, name: winner, texts };
}

function givenByFlags(row: Row, uses: readonly FlagUse[], warnings: string[]): Given | undefined {
  const first = uses[0];
  if (first === undefined) return undefined;
  if (row.type.arity === 'many') return { kind: 'flag', name: first.flag, texts: uses.map((use) => use.text) };
  const textsByName = new Map<string, string[]>();
  for (const use of uses) textsByName.set(use.flag, [...(textsByName.get(use.flag) ?? []), use.text]);
  // Names that only an engine has for the setting come last.
  const names = new Set([...row.flags, ...row.olderFlags, ...textsByName.keys()]);
  const chosen = chooseName('flag', [...names], textsByName, warnings);
  const passed = uses.find((use) => use.flag === chosen?.name)?.passed;
  return chosen === undefined || passed === undefined ? chosen : { ...chosen, passed };
}

function givenByVariables(row: Row, env: Environment, warnings: string[]): Given | undefined {
  const textsByName = new Map<string, readonly string[]>();
  const names = [...row.env, ...row.olderEnv];
  for (const name of names) {
    const text = env[name];
    if (text !== undefined && (text !== '' || row.type.emptyIsValue)) textsByName.set(name, [text]);
  }
  return chooseName('variable', names, textsByName, warnings);
}

function warnOfOlderName(row: Row, given: Given): string | undefined {
  if (row.olderFlags.includes(given.name)) return `${given.name} is an older spelling of ${row.flags[0]}`;
  if (row.olderEnv.includes(given.name)) return `${given.name} is deprecated: use ${row.env[0]}`;
  return undefined;
}

const VARIABLES: ReadonlySet<string> = new Set([...TABLE.values()].flatMap((row) => [...row.env, ...row.olderEnv]));

/** Warns of each variable that does nothing here, and of each variable with our prefixes that no process reads. */
function warnOfOtherVariables(process: Process, env: Environment, warnings: string[]): void {
  for (const [name, text] of Object.entries(env)) {
    if (VARIABLES.has(name)) continue;
    const unbuilt = findUnbuilt(name);
    if (unbuilt !== undefined) {
      if (unbuilt.usedBy.includes(process) && text !== '') warnings.push(sayUnbuilt(name, unbuilt));
    } else if (/^(DYN|STATOR)_/.test(name)) {
      const nearest = nearestName(name, [...VARIABLES, ...unbuiltNames(process)]);
      warnings.push(`unknown variable ${name}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`);
    }
  }
}

/**
 * Collects what the command line, a file of engine arguments and the environment give for the settings of `process`,
 * the strongest source for each.
 */
export function collectSources(
  process: Process,
  argv: readonly string[],
  env: Environment,
  file: FileArguments | undefined,
  findings: Findings,
): Map<SettingName, Given> {
  const { uses, rest } = readCommandLine(process, argv, env, file, findings);
  const given = new Map<SettingName, Given>();
  let takesRest = false;
  for (const [setting, row] of rowsOf(process)) {
    takesRest ||= row.type.arity === 'rest';
    const found = findGiven(row, uses.get(setting) ?? [], rest, env, findings.warnings);
    if (found === undefined) continue;
    given.set(setting, found);
    const warning = warnOfOlderName(row, found);
    if (warning !== undefined) findings.warnings.push(warning);
  }
  if (rest.length > 0 && !takesRest) {
    findings.problems.push(`arguments after -- go to the engine of stator worker; ${commandOf(process)} accepts none`);
  }
  warnOfOtherVariables(process, env, findings.warnings);
  return given;
}

function findGiven(
  row: Row,
  uses: readonly FlagUse[],
  rest: readonly string[],
  env: Environment,
  warnings: string[],
): Given | undefined {
  if (row.type.arity === 'rest') return rest.length === 0 ? undefined : { kind: 'flag', name: '--', texts: rest };
  return givenByFlags(row, uses, warnings) ?? givenByVariables(row, env, warnings);
}
