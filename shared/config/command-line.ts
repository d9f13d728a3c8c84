import { nearestName } from '../errors/index.ts';
import { commandOf, PROCESSES, type Process } from './processes.ts';
import { describeAllowed, type Row } from './row.ts';
import { rowsOf, type SettingName } from './table.ts';
import { findUnbuilt, sayUnbuilt, unbuiltNames } from './unbuilt.ts';

/** A flag as it was given once. */
export interface FlagUse {
  /** Declared spelling without `no-`. */
  readonly flag: string;
  readonly text: string;
}

/** A command line, read but not yet checked. */
export interface CommandLine {
  readonly uses: ReadonlyMap<SettingName, readonly FlagUse[]>;
  /** What follows `--`. */
  readonly rest: readonly string[];
  readonly warnings: readonly string[];
  readonly problems: readonly string[];
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
export function readCommandLine(process: Process, argv: readonly string[]): CommandLine {
  const flags = flagsOf(process);
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const uses = new Map<SettingName, FlagUse[]>();
  const warnings = new Set<string>();
  const problems: string[] = [];
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
      if (unbuilt?.usedBy.includes(process) === true) warnings.add(sayUnbuilt(typed, unbuilt));
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
  return { uses, rest: end < 0 ? [] : argv.slice(end + 1), warnings: [...warnings], problems };
}

/** A negative number is none. */
function isFlag(argument: string): boolean {
  return /^-[-a-zA-Z]/.test(argument);
}
