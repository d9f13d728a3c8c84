import { nearestName } from '../errors/index.ts';
import { commandOf, describeAllowed, PROCESSES, type Process, type Row } from './row.ts';
import { rowsOf, type SettingName, TABLE } from './table.ts';
import { findUnbuilt, refusalOf, sayUnbuilt, unbuiltNames } from './unbuilt.ts';
import type { Environment } from './values/value-type.ts';

/** Where a setting was given, and the texts that say what. */
export interface Given {
  readonly kind: 'flag' | 'variable';
  /** The flag or the variable, as the user wrote it. */
  readonly name: string;
  readonly texts: readonly string[];
}

/** What is wrong with a configuration, and what is only worth a warning: one line each, as it is found. */
export interface Findings {
  readonly problems: string[];
  readonly warnings: string[];
}

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
  if (row.type.arity === 'many') return { kind: 'flag', name: first.flag, texts: uses.map((use) => use.text) };
  const textsByName = new Map<string, string[]>();
  for (const use of uses) textsByName.set(use.flag, [...(textsByName.get(use.flag) ?? []), use.text]);
  return chooseName('flag', [...row.flags, ...row.olderFlags], textsByName, warnings);
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

/** Warns of each variable that does nothing here, and of each under our prefixes that no process reads. */
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

/** What the command line and the environment say of the settings of `process`, the stronger of them for each. */
export function collectSources(
  process: Process,
  argv: readonly string[],
  env: Environment,
  findings: Findings,
): Map<SettingName, Given> {
  const { uses, rest } = readCommandLine(process, argv, findings);
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
    findings.problems.push(`arguments after -- go to the engine of stator worker; ${commandOf(process)} takes none`);
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

/** A flag as it was given once. */
interface FlagUse {
  /** Declared spelling without `no-`. */
  readonly flag: string;
  readonly text: string;
}

interface FlagMeaning {
  readonly setting: SettingName;
  readonly row: Row;
  /** The flag's own spelling without `no-`. */
  readonly flag: string;
  /** `--no-x`. */
  readonly isNegated: boolean;
}

/** Every spelling that `process` takes, `--no-` forms included. */
function flagsOf(process: Process): ReadonlyMap<string, FlagMeaning> {
  const flags = new Map<string, FlagMeaning>();
  for (const [setting, row] of rowsOf(process)) {
    for (const flag of [...row.flags, ...row.olderFlags]) {
      flags.set(flag, { setting, row, flag, isNegated: false });
      if (row.type.arity === 'switch' && flag.startsWith('--')) {
        flags.set(`--no-${flag.slice(2)}`, { setting, row, flag, isNegated: true });
      }
    }
  }
  return flags;
}

function explainUnknown(flag: string, process: Process, spellings: Iterable<string>): string {
  const own = commandOf(process) ?? process;
  const refusal = refusalOf(flag);
  if (refusal !== undefined) return refusal;
  const unbuilt = findUnbuilt(flag);
  const takers = PROCESSES.filter((other) => unbuilt?.usedBy.includes(other) === true || flagsOf(other).has(flag));
  const owners = takers.flatMap((taker) => commandOf(taker) ?? []);
  if (owners.length > 0) return `${flag} belongs to ${owners.join(', ')}, not to ${own}`;
  const nearest = nearestName(flag, [...spellings, ...unbuiltNames(process)]);
  return nearest === undefined
    ? `unknown flag ${flag}; ${own} --help lists all`
    : `unknown flag ${flag}; did you mean ${nearest}?`;
}

/** What one flag says: its text, with `taken` when that is the next argument, or what is wrong with it. */
type FlagText = { readonly text: string; readonly taken?: true } | { readonly problem: string };

function readText(
  { row, isNegated }: FlagMeaning,
  typed: string,
  text: string | undefined,
  next: string | undefined,
): FlagText {
  if (row.type.arity === 'switch') {
    if (!isNegated) return { text: text ?? 'true' };
    return text === undefined ? { text: 'false' } : { problem: `${typed} takes no value; write ${typed}` };
  }
  if (text !== undefined) return { text };
  if (next !== undefined && !next.startsWith('--')) return { text: next, taken: true };
  return { problem: `${typed} needs a value: ${describeAllowed(row)}` };
}

/**
 * Reads the arguments of `process`: every flag with its text, in order, and every argument that fits nowhere. Not by
 * `parseArgs` of `node:util`, to which `--a --b` is the flag `--a` with the value `--b`, `-abc` three flags, and what follows an
 * unknown flag an argument of its own: telling these apart again takes more lines than splitting at `=`.
 */
function readCommandLine(process: Process, argv: readonly string[], findings: Findings) {
  const flags = flagsOf(process);
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const uses = new Map<SettingName, FlagUse[]>();
  const unbuiltUses = new Set<string>();
  const { problems } = findings;
  for (let at = 0; at < own.length; at += 1) {
    const argument = own[at]!;
    const next = own[at + 1];
    if (!isFlag(argument)) {
      problems.push(
        `unexpected argument ${JSON.stringify(argument)}; flags start with --, a switch is set by --x=true`,
      );
      continue;
    }
    const equals = argument.indexOf('=');
    const typed = equals < 0 ? argument : argument.slice(0, equals);
    const text = equals < 0 ? undefined : argument.slice(equals + 1);
    const meaning = flags.get(typed);
    if (meaning === undefined) {
      const unbuilt = findUnbuilt(typed);
      if (unbuilt?.usedBy.includes(process) === true) unbuiltUses.add(sayUnbuilt(typed, unbuilt));
      else problems.push(explainUnknown(typed, process, flags.keys()));
      // What follows is most likely this flag's value: one mistake gives one message.
      if (text === undefined && next !== undefined && !isFlag(next)) at += 1;
      continue;
    }
    const said = readText(meaning, typed, text, next);
    if ('problem' in said) {
      problems.push(said.problem);
      continue;
    }
    if (said.taken) at += 1;
    uses.set(meaning.setting, [...(uses.get(meaning.setting) ?? []), { flag: meaning.flag, text: said.text }]);
  }
  findings.warnings.push(...unbuiltUses);
  const rest = end < 0 ? [] : argv.slice(end + 1);
  return { uses, rest };
}

/** A negative number is none. */
function isFlag(argument: string): boolean {
  return /^-[-a-zA-Z]/.test(argument);
}
