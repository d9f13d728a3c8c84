import { nameWithin } from '../../errors/index.ts';
import { needsOf } from '../needs.ts';
import { nameOf, type SettingName, TABLE } from '../table.ts';
import { flagName, isFlag, splitWord, valuesAfter } from '../values/words.ts';
import type { EngineFlags, SharedFlag } from './engine-flags.ts';
import { mergeFields, readFields } from './json-fields.ts';
import type { FlagMeaning, FlagUse, LineFindings, OwnFlags } from './own-flags.ts';

/** Place of arguments: in a file of engine arguments, before `--`, or after it. */
type Part = 'file' | 'own' | 'rest';

/** A flag with everything that belongs to it. */
interface Given {
  /** Arguments as written, up to the next flag. */
  readonly argv: readonly string[];
  /** Flag as written, without a value. */
  readonly typed: string;
  /** Known spelling of the flag. */
  readonly name: string;
  /** Text after `=`, otherwise the arguments that follow. */
  readonly values: readonly string[];
  readonly part: Part;
}

/** Largest number of typing errors in a flag that is still taken for one of ours. */
const EDITS_MAX = 2;

/**
 * Reads the command line of a process that starts an engine. It reads our flags, passes the engine's flags on in their
 * order with the values that follow, and does both with flags that both have.
 */
export class EngineLine {
  readonly #engine: EngineFlags;
  readonly #own: OwnFlags;
  readonly #findings: LineFindings;
  readonly #passed: string[] = [];
  /** Settings from a file, which count only if no flag gives them. */
  readonly #ofFile = new Map<SettingName, FlagUse[]>();
  /** Settings given by fields, such as `--kv-events-config.topic`. */
  readonly #fields = new Map<SettingName, Record<string, unknown>>();
  /** Uses of a flag that stands for another setting if its first one is given by its own name. */
  readonly #eitherWay: { readonly first: SettingName; readonly second: SettingName; readonly use: FlagUse }[] = [];

  constructor(engine: EngineFlags, own: OwnFlags, findings: LineFindings) {
    this.#engine = engine;
    this.#own = own;
    this.#findings = findings;
  }

  /** @param source name of the source in messages, if it is not the command line */
  read(argv: readonly string[], part: Part, source?: string): void {
    const before = this.#findings.problems.length;
    for (let at = 0; at < argv.length; ) at += this.#take(argv, at, part);
    if (source === undefined) return;
    const { problems } = this.#findings;
    for (let at = before; at < problems.length; at += 1) problems[at] = `${source}: ${problems[at]}`;
  }

  /** Returns the arguments of the engine. From then on, our flags include every setting that was given. */
  finish(): readonly string[] {
    for (const [setting, uses] of this.#ofFile) if (!this.#own.uses.has(setting)) this.#own.add(setting, ...uses);
    for (const { first, second, use } of this.#eitherWay) {
      this.#own.add(this.#own.uses.has(first) ? second : first, use);
    }
    for (const [setting, fields] of this.#fields) {
      const { flag = nameOf(setting), text = '{}' } = this.#own.uses.get(setting)?.at(-1) ?? {};
      const merged = mergeFields(text, fields);
      if (merged !== undefined) this.#own.add(setting, { flag, text: merged });
      else this.#findings.problems.push(`${flag} is given both by its fields and as ${text}: use one of the two ways`);
    }
    return this.#passed.map((argument) => this.#spelled(argument));
  }

  /** Returns a known flag in the engine's spelling, and anything else unchanged. */
  #spelled(argument: string): string {
    const { isUnderscored, names } = this.#engine;
    if (isUnderscored !== true || !isFlag(argument)) return argument;
    const { typed } = splitWord(argument);
    if (!names.has(flagName(typed))) return argument;
    return `--${typed.slice(2).replaceAll('-', '_')}${argument.slice(typed.length)}`;
  }

  #take(argv: readonly string[], at: number, part: Part): number {
    const argument = argv[at]!;
    if (!isFlag(argument)) return this.#takeWord(argv, at, part);
    const { typed, text } = splitWord(argument);
    const following = text === undefined ? valuesAfter(argv, at) : [];
    const given: Given = {
      argv: [argument, ...following],
      typed,
      name: flagName(typed),
      values: text === undefined ? following : [text],
      part,
    };
    const meaning = this.#own.spellings.get(given.name);
    const refusal = this.#engine.refused[given.name];
    const shared = this.#sharedOf(given.name, meaning);
    if (refusal !== undefined) this.#findings.problems.push(`${typed} cannot be passed on: ${refusal}`);
    else if (shared !== undefined) this.#share(given, shared);
    else if (meaning !== undefined && part === 'own') return this.#takeOwn(argv, at, given, meaning);
    else if (part === 'rest' || this.#isForEngine(given, meaning)) this.#passed.push(...given.argv);
    return given.argv.length;
  }

  /**
   * Takes an argument that is not a flag and does not belong to one as the name of the model, as in `vllm serve MODEL`.
   */
  #takeWord(argv: readonly string[], at: number, part: Part): number {
    if (part !== 'own' || !this.#engine.takesModel || this.#own.uses.has('model')) return this.#own.take(argv, at);
    this.#own.add('model', { flag: '--model', text: argv[at]! });
    return 1;
  }

  /** Returns how a flag is shared. A `--no-` form is shared if its flag is a switch. */
  #sharedOf(name: string, meaning: FlagMeaning | undefined): SharedFlag | undefined {
    const { shared } = this.#engine;
    if (Object.hasOwn(shared, name)) return shared[name];
    const positive = meaning?.flag ?? name.replace(/^--no-/, '--');
    return Object.hasOwn(shared, positive) && shared[positive]?.on !== undefined ? shared[positive] : undefined;
  }

  #takeOwn(argv: readonly string[], at: number, { typed, name }: Given, { setting }: FlagMeaning): number {
    if (this.#engine.idle.has(setting) && needsOf(setting) === '') {
      this.#findings.warnings.push(`${name} has no effect: ${this.#engine.title} has no such flag`);
    }
    return typed === name
      ? this.#own.take(argv, at)
      : this.#own.take([name + argv[at]!.slice(typed.length), ...argv.slice(at + 1)], 0);
  }

  #share(given: Given, shared: SharedFlag): void {
    const { setting, as, on, says } = shared;
    const { argv, name, values } = given;
    const reads = setting !== undefined && this.#own.reads(setting);
    if (shared.way === 'written' && reads) this.#write(given, shared, setting);
    else if (on !== undefined) this.#switch(given, shared, reads);
    else {
      const text = says ?? values[0];
      if (text === undefined && setting !== undefined)
        return void this.#findings.problems.push(`${name} needs a value`);
      if (reads && text !== undefined)
        this.#use(given.part, setting, { flag: name, text, passed: { unread: shared.unread } });
      this.#passed.push(...(as === undefined ? argv : [as, ...values]));
    }
  }

  #switch(
    { argv, typed, name, values, part }: Given,
    { setting, on = [], off = [] }: SharedFlag,
    reads: boolean,
  ): void {
    const word = argv[0]!.slice(typed.length + 1).toLowerCase();
    const isOn = !(name.startsWith('--no-') || /^(0|false|no|off)$/.test(word));
    if (reads && setting !== undefined)
      this.#use(part, setting, {
        flag: name.replace(/^--no-/, '--'),
        text: String(isOn),
        passed: { unread: undefined },
      });
    this.#passed.push(...(isOn ? on : off), ...(word === '' ? values : []));
  }

  /** Notes a flag that the start of the engine writes anew. */
  #write({ argv, typed, name, values, part }: Given, { instead }: SharedFlag, setting: SettingName): void {
    const { problems } = this.#findings;
    const [, ...path] = typed.split('.');
    const arity = TABLE.get(setting)?.type.arity;
    const [text, ...more] = arity === 'switch' ? [values[0] ?? 'true', ...values.slice(1)] : values;
    if (text === undefined) problems.push(`${typed} needs a value`);
    else if (path.length > 0) this.#fields.set(setting, readFields(this.#fields.get(setting) ?? {}, path, text));
    else if (instead !== undefined)
      this.#eitherWay.push({ first: setting, second: instead, use: { flag: name, text } });
    else {
      const texts = arity === 'many' ? [text, ...more] : [text];
      this.#use(part, setting, ...texts.map((each) => ({ flag: name, text: each })));
      if (texts.length < values.length) problems.push(`unexpected argument ${JSON.stringify(argv[2])} after ${typed}`);
    }
  }

  #use(part: Part, setting: SettingName, ...uses: readonly FlagUse[]): void {
    if (part === 'file') this.#ofFile.set(setting, [...(this.#ofFile.get(setting) ?? []), ...uses]);
    else this.#own.add(setting, ...uses);
  }

  /** Whether a flag that is not ours belongs to the engine. If it belongs to neither, says what is wrong. */
  #isForEngine({ typed, name, part }: Given, meaning: FlagMeaning | undefined): boolean {
    const { names, title } = this.#engine;
    if (names.has(name) || !name.startsWith('--')) return true;
    const { problems } = this.#findings;
    if (meaning !== undefined) problems.push(`${typed} is a flag of Stator, not of ${title}`);
    else if (this.#own.isElsewhere(name)) this.#own.refuse(name);
    else {
      const nearest = nameWithin(name, this.#own.candidates(), EDITS_MAX);
      if (nearest === undefined) return true;
      const hint = part === 'own' ? ` After -- it goes to ${title} unchanged` : '';
      problems.push(`unknown flag ${typed}; did you mean ${nearest}?${hint}`);
    }
    return false;
  }
}
