import { likelyName } from '../../errors/index.ts';
import { commandOf, describeAllowed, PROCESSES, type Process, type Row } from '../row.ts';
import { rowsOf, type SettingName, TABLE } from '../table.ts';
import { findUnbuilt, refusalOf, sayUnbuilt, unbuiltNames } from '../unbuilt.ts';
import { flagName, isFlag, splitWord } from '../values/words.ts';
import { type EngineFlags, enginesWith } from './engine-flags.ts';

/** A flag as it was given once. */
export interface FlagUse {
  /** Declared spelling without `no-`. */
  readonly flag: string;
  readonly text: string;
  /** An engine gets it as it was given and refuses what it does not take: what is said where it cannot be read here. */
  readonly passed?: { readonly unread: string | undefined };
}

/** What an argument may be: a flag of this product. */
export interface FlagMeaning {
  readonly setting: SettingName;
  readonly row: Row;
  /** The flag's own spelling without `no-`. */
  readonly flag: string;
  /** `--no-x`. */
  readonly isNegated: boolean;
}

/** What is wrong with a command line, and what is only worth a warning. */
export interface LineFindings {
  readonly problems: string[];
  readonly warnings: string[];
}

/** The engine that a command line names. */
export interface NamedEngine {
  /** `--engine X`, or the variable that says it. */
  readonly given: string;
  /** What it calls its flags; undefined for one that has none here. */
  readonly flags: EngineFlags | undefined;
  /** Whether it runs already, so that no flag can reach it. */
  readonly isAttached: boolean;
}

/** What is said of flags for an engine that runs already. */
export const ATTACHED = 'the engine of --engine-url is already running: give the flag where that engine is started';

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

/** Reads the flags of this product out of a command line of `process`. */
export class OwnFlags {
  /** Every spelling, `--no-` forms included. */
  readonly spellings: ReadonlyMap<string, FlagMeaning>;
  readonly #uses = new Map<SettingName, FlagUse[]>();
  readonly #process: Process;
  readonly #engine: NamedEngine | undefined;
  readonly #findings: LineFindings;
  readonly #unbuilt = new Set<string>();

  constructor(process: Process, engine: NamedEngine | undefined, findings: LineFindings) {
    this.spellings = flagsOf(process);
    this.#process = process;
    this.#engine = engine;
    this.#findings = findings;
  }

  /** Every flag that was read, by its setting. */
  get uses(): ReadonlyMap<SettingName, readonly FlagUse[]> {
    return this.#uses;
  }

  add(setting: SettingName, ...uses: readonly FlagUse[]): void {
    this.#uses.set(setting, [...(this.#uses.get(setting) ?? []), ...uses]);
  }

  /** Reads the argument at `at`. @returns how many arguments that were, the flag's value included */
  take(argv: readonly string[], at: number): number {
    const argument = argv[at]!;
    const next = argv[at + 1];
    if (!isFlag(argument)) {
      const word = JSON.stringify(argument);
      this.#findings.problems.push(
        `unexpected argument ${word}; flags start with --, and a switch is set with --x=true`,
      );
      return 1;
    }
    const { typed, text } = splitWord(argument);
    const meaning = this.spellings.get(typed);
    if (meaning === undefined) {
      this.refuse(typed);
      // What follows is most likely this flag's value: one mistake gives one message.
      return text === undefined && next !== undefined && !isFlag(next) ? 2 : 1;
    }
    const said = readText(meaning, typed, text, next);
    if ('problem' in said) {
      this.#findings.problems.push(said.problem);
      return 1;
    }
    this.add(meaning.setting, { flag: meaning.flag, text: said.text });
    return said.taken === true ? 2 : 1;
  }

  #isUnbuilt(flag: string): boolean {
    return findUnbuilt(flag)?.usedBy.includes(this.#process) === true;
  }

  /** Whether `flag` is of another command, or known and without effect. */
  isElsewhere(flag: string): boolean {
    return this.#isUnbuilt(flag) || refusalOf(flag) !== undefined || ownersOf(flag) !== undefined;
  }

  /** Whether the process has the setting. */
  reads(setting: SettingName): boolean {
    return TABLE.get(setting)?.usedBy.includes(this.#process) === true;
  }

  /** Spellings that a user may have meant. */
  candidates(): readonly string[] {
    return [...this.spellings.keys(), ...unbuiltNames(this.#process)];
  }

  /** Says what is wrong with a flag that is none of this process, or that it does nothing. */
  refuse(flag: string): void {
    if (this.#isUnbuilt(flag)) this.#unbuilt.add(sayUnbuilt(flag, findUnbuilt(flag)!));
    else this.#findings.problems.push(this.#explain(flag));
  }

  #explain(flag: string): string {
    const own = commandOf(this.#process) ?? this.#process;
    const refusal = refusalOf(flag);
    if (refusal !== undefined) return refusal;
    const { flags, isAttached, given } = this.#engine ?? {};
    const name = flagName(flag);
    if (isAttached === true && flags?.names.has(name) === true) {
      return `${flag} is a flag of ${flags.title}; ${ATTACHED}`;
    }
    const owners = ownersOf(flag);
    if (owners !== undefined) return `${flag} belongs to ${owners}, not to ${own}`;
    const engines = given === undefined ? [] : enginesWith(name);
    if (engines.length > 0) {
      const wanted = engines.map(({ engine }) => `--engine ${engine}`).join(' and ');
      return `unknown flag ${flag}: ${wanted} would pass it on, but ${given} has no such flag`;
    }
    const nearest = likelyName(flag, this.candidates());
    return nearest === undefined
      ? `unknown flag ${flag}; ${own} --help lists all`
      : `unknown flag ${flag}; did you mean ${nearest}?`;
  }

  /** Warns of what does nothing, each flag once. */
  finish(): void {
    this.#findings.warnings.push(...this.#unbuilt);
  }
}

/** The commands that take `flag`; undefined when none does. */
function ownersOf(flag: string): string | undefined {
  const unbuilt = findUnbuilt(flag);
  const takers = PROCESSES.filter((other) => unbuilt?.usedBy.includes(other) === true || flagsOf(other).has(flag));
  const owners = takers.flatMap((taker) => commandOf(taker) ?? []);
  return owners.length === 0 ? undefined : owners.join(', ');
}
