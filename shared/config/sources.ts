import { nearestName } from '../errors/index.ts';
import { type FlagUse, readArguments } from './arguments.ts';
import { patternOf } from './flag-index.ts';
import { commandOf, type Process } from './processes.ts';
import type { Row } from './row.ts';
import { rowsOf, type SettingName, TABLE } from './table.ts';

/** Where a setting was given, and the texts that say what. */
export interface Given {
  readonly kind: 'flag' | 'variable' | 'file';
  /** The flag, the variable or the key, as the user wrote it. */
  readonly name: string;
  readonly texts: readonly string[];
}

/** What the command line, the environment and a configuration file say, the strongest of them per setting. */
export interface Sources {
  readonly given: ReadonlyMap<SettingName, Given>;
  readonly warnings: readonly string[];
  readonly problems: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Texts under several names of one setting: the first named wins. */
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
      warnings.push(`${winner} and ${other} are one setting and differ: ${winner} counts`);
    }
  }
  return { kind, name: winner, texts };
}

function givenByFlags(row: Row, uses: readonly FlagUse[], warnings: string[]): Given | undefined {
  const first = uses[0];
  if (first === undefined) return undefined;
  const texts = uses.map((use) => use.text);
  if (row.type.arity === 'family') {
    return { kind: 'flag', name: [...new Set(uses.map((use) => use.typed))].join(', '), texts };
  }
  if (row.type.arity === 'many') return { kind: 'flag', name: first.flag, texts };
  const textsByName = new Map<string, string[]>();
  for (const use of uses) textsByName.set(use.flag, [...(textsByName.get(use.flag) ?? []), use.text]);
  return chooseName('flag', [...row.flags, ...row.olderFlags], textsByName, warnings);
}

function givenByVariables(row: Row, env: Environment, warnings: string[]): Given | undefined {
  if (row.type.arity === 'family') return givenByFamily(row, env);
  const textsByName = new Map<string, readonly string[]>();
  const names = [...row.env, ...row.olderEnv];
  for (const name of names) {
    const text = env[name];
    if (text !== undefined && (text !== '' || row.type.emptyIsValue)) textsByName.set(name, [text]);
  }
  return chooseName('variable', names, textsByName, warnings);
}

/** Every variable under the row's patterns that has no row of its own. */
function givenByFamily(row: Row, env: Environment): Given | undefined {
  const patterns = row.env.filter((name) => name.includes('*')).map(patternOf);
  const names = Object.keys(env).filter((name) => row.env.includes(name) || isFamilyMember(name, patterns));
  if (names.length === 0) return undefined;
  return { kind: 'variable', name: names.join(', '), texts: names.map((name) => `${name}=${env[name]}`) };
}

function isFamilyMember(name: string, patterns: readonly RegExp[]): boolean {
  return patterns.some((pattern) => pattern.test(name)) && !EXACT_VARIABLES.has(name);
}

function givenByFile(row: Row, fileValues: Readonly<Record<string, unknown>>): Given | undefined {
  for (const key of row.keys) {
    const value = key
      .split('.')
      .reduce<unknown>((node, part) => (node as Record<string, unknown> | undefined)?.[part], fileValues);
    if (value === undefined) continue;
    const text = typeof value === 'string' ? value : value === null ? 'None' : JSON.stringify(value);
    return { kind: 'file', name: `key ${key}`, texts: [text] };
  }
  return undefined;
}

function warnOfOlderName(row: Row, given: Given): string | undefined {
  if (row.olderFlags.includes(given.name)) return `${given.name} is an older spelling of ${row.flags[0]}`;
  if (row.olderEnv.includes(given.name)) return `${given.name} is deprecated: use ${row.env[0]}`;
  return undefined;
}

const EXACT_VARIABLES: ReadonlySet<string> = new Set(
  [...TABLE.values()].flatMap((row) => [...row.env, ...row.olderEnv]).filter((name) => !name.includes('*')),
);
const VARIABLE_PATTERNS: readonly RegExp[] = [...TABLE.values()]
  .flatMap((row) => row.env)
  .filter((name) => name.includes('*'))
  .map(patternOf);

/** One warning for each variable under our prefixes that no process reads. */
function warnOfUnknownVariables(env: Environment): readonly string[] {
  const warnings: string[] = [];
  for (const name of Object.keys(env)) {
    if (!/^(DYN|STATOR)_/.test(name) || EXACT_VARIABLES.has(name)) continue;
    if (VARIABLE_PATTERNS.some((pattern) => pattern.test(name))) continue;
    const nearest = nearestName(name, EXACT_VARIABLES);
    warnings.push(`unknown variable ${name}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`);
  }
  return warnings;
}

/** Everything that says something about the settings of `process`. */
export function collectSources(
  process: Process,
  argv: readonly string[],
  env: Environment,
  fileValues: Readonly<Record<string, unknown>>,
): Sources {
  const line = readArguments(process, argv);
  const given = new Map<SettingName, Given>();
  const warnings: string[] = [];
  const problems = [...line.problems];
  let takesRest = false;
  for (const [setting, row] of rowsOf(process)) {
    takesRest ||= row.type.arity === 'rest';
    const found = findGiven(row, line.uses.get(setting) ?? [], line.rest, env, fileValues, warnings);
    if (found === undefined) continue;
    given.set(setting, found);
    const warning = warnOfOlderName(row, found);
    if (warning !== undefined) warnings.push(warning);
  }
  if (line.rest.length > 0 && !takesRest) {
    problems.push(`arguments after -- go to the engine of stator worker; ${commandOf(process)} takes none`);
  }
  return { given, warnings: [...warnings, ...warnOfUnknownVariables(env)], problems };
}

function findGiven(
  row: Row,
  uses: readonly FlagUse[],
  rest: readonly string[],
  env: Environment,
  fileValues: Readonly<Record<string, unknown>>,
  warnings: string[],
): Given | undefined {
  if (row.type.arity === 'rest') return rest.length === 0 ? undefined : { kind: 'flag', name: '--', texts: rest };
  return givenByFlags(row, uses, warnings) ?? givenByVariables(row, env, warnings) ?? givenByFile(row, fileValues);
}
