import { likelyName } from '../../errors/index.ts';
import { commandOf, describeAllowed, PROCESSES, type Process, type Row } from '../row.ts';
import { rowsOf, type SettingName, TABLE } from '../table.ts';
import { findUnbuilt, refusalOf, sayUnbuilt, unbuiltNames } from '../unbuilt.ts';
import { flagName, isFlag, splitWord } from '../values/words.ts';
import { type EngineFlags, enginesWith } from './engine-flags.ts';

/** One use of a flag. */
export interface FlagUse {
  /** Declared spelling without `no-`. */
  readonly flag: string;
  readonly text: string;
  /**
   * Set if the engine gets the flag unchanged and itself refuses wrong values; `unread` is the warning for a value that
   * cannot be read here.
   */
  readonly passed?: { readonly unread: string | undefined };
}

/** One of our flags that an argument may be. */
export interface FlagMeaning {
  readonly setting: SettingName;
  readonly row: Row;
  /** Spelling of the flag without `no-`. */
  readonly flag: string;
  /** Whether the argument has the form `--no-x`. */
  readonly isNegated: boolean;
}

/** Problems of a command line, and findings that are only worth a warning. */
export interface LineFindings {
  readonly problems: string[];
  readonly warnings: string[];
}

/** Engine that a command line names. */
export interface NamedEngine {
  /** `--engine X`, or the variable that gives it. */
  readonly given: string;
  /** Flags of the engine; undefined if none are known here. */
  readonly flags: EngineFlags | undefined;
  /** Whether the engine is already running, so that no flag can reach it. */
  readonly isAttached: boolean;
}

/** Explanation for flags given to an engine that is already running. */
export const ATTACHED = 'the engine of --engine-url is already running: give the flag where that engine is started';

/** Returns every spelling that `process` accepts, including `--no-` forms. */
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

/** Returns the text of one flag, with `taken` if the text is the next argument; or what is wrong with the flag. */
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

/** Flags that Dynamo's frontends have for their chat processors. */
const ENGINE_PARSERS: ReadonlySet<string> = new Set(['--tool-call-parser', '--reasoning-parser']);
const AT_THE_WORKER =
  'is a flag of the engine: give it to stator worker, which passes it on; with --dyn-chat-processor, the engine itself ' +
  'parses the answers of chats';

/** Reads our own flags from a command line of `process`. */
export class OwnFlags {
  /** Every spelling, including `--no-` forms. */
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

  /** Reads the argument at `at`. @returns how many arguments it took, including the flag's value */
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
      // The next argument is most likely the value of this flag, so that one mistake gives one message.
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

  /** Whether `flag` belongs to another command, or is known and has no effect. */
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

  /** Reports a flag that this process does not have: what is wrong with it, or that it has no effect. */
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
    if (given === undefined && ENGINE_PARSERS.has(flag)) return `${flag} ${AT_THE_WORKER}`;
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

  /** Warns of flags without effect, once for each. */
  finish(): void {
    this.#findings.warnings.push(...this.#unbuilt);
  }
}

/** Returns the commands that accept `flag`; undefined if there are none. */
function ownersOf(flag: string): string | undefined {
  const unbuilt = findUnbuilt(flag);
  const takers = PROCESSES.filter((other) => unbuilt?.usedBy.includes(other) === true || flagsOf(other).has(flag));
  const owners = takers.flatMap((taker) => commandOf(taker) ?? []);
  return owners.length === 0 ? undefined : owners.join(', ');
}
