import { nearestName } from '../errors/index.ts';
import { commandsWithFlag, type FlagMeaning, indexFlags } from './flag-index.ts';
import { commandOf, type Process } from './processes.ts';
import { describeAllowed } from './row.ts';
import type { SettingName } from './table.ts';

/** A flag as it was given once. */
export interface FlagUse {
  /** Declared spelling without `no-`. */
  readonly flag: string;
  /** As typed, for messages. */
  readonly typed: string;
  readonly text: string;
}

/** A command line, read but not yet checked. */
export interface CommandLine {
  readonly uses: ReadonlyMap<SettingName, readonly FlagUse[]>;
  /** What follows `--`. */
  readonly rest: readonly string[];
  readonly problems: readonly string[];
}

type Step = { readonly use: FlagUse; readonly taken: number } | { readonly problem: string; readonly taken: number };

function splitFlag(argument: string): { readonly name: string; readonly text: string | undefined } {
  const at = argument.indexOf('=');
  return at < 0 ? { name: argument, text: undefined } : { name: argument.slice(0, at), text: argument.slice(at + 1) };
}

function readSwitch(meaning: FlagMeaning, typed: string, text: string | undefined): Step {
  if (meaning.negated && text !== undefined) return { problem: `${typed} takes no value; write ${typed}`, taken: 1 };
  return { use: { flag: meaning.flag, typed, text: meaning.negated ? 'false' : (text ?? 'true') }, taken: 1 };
}

/** A flag known by a pattern only: whether it takes a value shows in what follows. */
function readFamily(meaning: FlagMeaning, typed: string, text: string | undefined, next: string | undefined): Step {
  const taken = text === undefined && next !== undefined && !next.startsWith('-') ? 2 : 1;
  const value = taken === 2 ? next : text;
  return { use: { flag: meaning.flag, typed, text: value === undefined ? typed : `${typed}=${value}` }, taken };
}

function readFlag(meaning: FlagMeaning, argument: string, next: string | undefined): Step {
  const { name, text } = splitFlag(argument);
  if (meaning.row.type.arity === 'switch') return readSwitch(meaning, name, text);
  if (meaning.row.type.arity === 'family') return readFamily(meaning, name, text, next);
  if (text !== undefined) return { use: { flag: meaning.flag, typed: name, text }, taken: 1 };
  if (next === undefined || next.startsWith('--')) {
    return { problem: `${name} needs a value: ${describeAllowed(meaning.row)}`, taken: 1 };
  }
  return { use: { flag: meaning.flag, typed: name, text: next }, taken: 2 };
}

function explainUnknown(name: string, process: Process, spellings: readonly string[]): string {
  const own = commandOf(process) ?? process;
  const owners = commandsWithFlag(name);
  if (owners.length > 0) return `${name} belongs to ${owners.join(', ')}, not to ${own}`;
  const nearest = nearestName(name, spellings);
  return nearest === undefined
    ? `unknown flag ${name}; ${own} --help lists all`
    : `unknown flag ${name}; did you mean ${nearest}?`;
}

/** Reads the arguments of `process`: every flag with its text, in order, and every argument that fits nowhere. */
export function readArguments(process: Process, argv: readonly string[]): CommandLine {
  const index = indexFlags(process);
  const end = argv.indexOf('--');
  const own = end < 0 ? argv : argv.slice(0, end);
  const uses = new Map<SettingName, FlagUse[]>();
  const problems: string[] = [];
  for (let at = 0; at < own.length; ) {
    const argument = own[at]!;
    const { name, text } = splitFlag(argument);
    const next = own[at + 1];
    if (!/^-[-a-zA-Z]/.test(argument)) {
      problems.push(
        `unexpected argument ${JSON.stringify(argument)}; flags start with --, a switch is set by --x=true`,
      );
      at += 1;
      continue;
    }
    const meaning = index.find(name);
    if (meaning === undefined) {
      problems.push(explainUnknown(name, process, index.spellings));
      // What follows is most likely this flag's value: one mistake gives one message.
      at += text === undefined && next !== undefined && !next.startsWith('-') ? 2 : 1;
      continue;
    }
    const step = readFlag(meaning, argument, next);
    at += step.taken;
    if ('problem' in step) problems.push(step.problem);
    else uses.set(meaning.setting, [...(uses.get(meaning.setting) ?? []), step.use]);
  }
  return { uses, rest: end < 0 ? [] : argv.slice(end + 1), problems };
}
