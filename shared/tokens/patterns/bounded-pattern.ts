import { compilePattern, type Instruction, type Program } from './compile-pattern.ts';
import { UnsupportedPattern } from './parse-pattern.ts';
import { PatternBudgetError, takeSteps } from './steps.ts';

/** Length limit of a pattern; those for words are shorter. */
const SOURCE_UNITS_MAX = 20_000;
/** Limit of the numbers on the stack of choices: 32 MB. */
const STACK_MAX = 4_000_000;

/**
 * Kinds of entries on the stack, which say how to backtrack when an attempt fails. Each entry has four numbers; the
 * last one is its kind.
 */
const CHOICE = 0;
const SHORTER = 1;
const LONGER = 2;
const RESTORE = 3;

/**
 * Regular expression from an untrusted file. It matches like JavaScript's own, which backtracks however long that
 * takes, but within the budget of `beginSteps`. A match reports no groups, only the whole.
 */
export class BoundedPattern extends RegExp {
  readonly #program: Program;

  /** @throws UnsupportedPattern for back references and lookbehinds */
  constructor(pattern: RegExp | string, flags: string) {
    const source = typeof pattern === 'string' ? pattern : pattern.source;
    if (source.length > SOURCE_UNITS_MAX) throw new UnsupportedPattern('the pattern is too long');
    super(source, flags);
    const isCopy = pattern instanceof BoundedPattern; // `matchAll` and `split` work on a copy
    this.#program = isCopy ? pattern.#program : compilePattern(source, flags.includes('v') ? 'v' : 'u');
  }

  /** @throws PatternBudgetError */
  override exec(text: string): RegExpExecArray | null {
    const run = new PatternRun(this.#program, text);
    for (let start = this.lastIndex; start <= text.length; start += widthAt(text, start)) {
      const end = run.match(start);
      if (end >= 0) {
        this.lastIndex = end;
        const match: [string] = [text.slice(start, end)];
        return Object.assign(match, { index: start, input: text }) as RegExpExecArray; // a match without named groups
      }
      if (this.sticky) break;
    }
    this.lastIndex = 0;
    return null;
  }

  override test(text: string): boolean {
    return this.exec(text) !== null;
  }
}

function widthAt(text: string, at: number): number {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00 ? 2 : 1;
}

function widthBefore(text: string, at: number): number {
  return (text.charCodeAt(at - 1) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 2) & 0xfc00) === 0xd800 ? 2 : 1;
}

const stack: number[] = [];

/** Attempts of one program on one text. */
class PatternRun {
  readonly #code: readonly Instruction[];
  readonly #text: string;
  readonly #slots: number[];
  #pc = 0;
  #at = 0;

  constructor({ code, slots }: Program, text: string) {
    this.#code = code;
    this.#text = text;
    this.#slots = new Array<number>(slots).fill(-1);
  }

  /** Returns the end of the match that begins at `start`, or -1 without a match. */
  match(start: number): number {
    stack.length = 0; // the budget may have ended the last run
    return this.#run(0, start);
  }

  #run(pc: number, at: number): number {
    const base = stack.length;
    this.#pc = pc;
    this.#at = at;
    for (;;) {
      takeSteps(1);
      const instruction = this.#code[this.#pc]!;
      if (instruction.op === 'match') {
        stack.length = base;
        return this.#at;
      }
      if (!this.#step(instruction) && !this.#goBack(base)) return -1;
    }
  }

  /** Executes one instruction. Returns false when the attempt fails. */
  #step(instruction: Instruction): boolean {
    switch (instruction.op) {
      case 'run':
        return this.#take(instruction);
      case 'split':
        this.#push(instruction.second, this.#at, 0, CHOICE);
        this.#pc = instruction.first;
        return true;
      case 'jump':
        this.#pc = instruction.to;
        return true;
      case 'mark':
        this.#push(instruction.slot, this.#slots[instruction.slot]!, 0, RESTORE);
        this.#slots[instruction.slot] = this.#at;
        this.#pc++;
        return true;
      case 'moved':
        this.#pc++;
        return this.#slots[instruction.slot] !== this.#at;
      case 'look':
        return this.#look(instruction);
      case 'assert':
        this.#pc++;
        return instruction.holds(this.#text, this.#at);
      default:
        return false; // a match, which `#run` has handled
    }
  }

  #look({ isNegative, next }: Extract<Instruction, { readonly op: 'look' }>): boolean {
    const at = this.#at;
    const found = this.#run(this.#pc + 1, at) >= 0;
    this.#at = at;
    this.#pc = next;
    return found !== isNegative;
  }

  #take({ atom, min, max, isGreedy }: Extract<Instruction, { readonly op: 'run' }>): boolean {
    const text = this.#text;
    let at = this.#at;
    let least = at;
    const most = isGreedy ? max : min;
    let count = 0;
    while (count < most && at < text.length && atom(text.codePointAt(at)!)) {
      at += widthAt(text, at);
      if (++count === min) least = at;
    }
    if (count > 1) takeSteps(count);
    if (count < min) return false;
    this.#at = at;
    if (isGreedy && at > least) this.#push(this.#pc + 1, least, at, SHORTER);
    if (!isGreedy && count < max) this.#push(this.#pc, at, max - count, LONGER);
    this.#pc++;
    return true;
  }

  /** Backtracks. Returns false when no choice is left. */
  #goBack(base: number): boolean {
    while (stack.length > base) {
      takeSteps(1);
      const kind = stack.pop()!;
      const second = stack.pop()!;
      const first = stack.pop()!;
      const pc = stack.pop()!;
      if (kind === RESTORE) this.#slots[pc] = first;
      else if (kind !== LONGER) {
        this.#pc = pc;
        this.#at = kind === CHOICE ? first : second - widthBefore(this.#text, second);
        if (kind === SHORTER && this.#at > first) this.#push(pc, first, this.#at, SHORTER);
        return true;
      } else if (this.#takeOneMore(pc, first, second)) return true;
    }
    return false;
  }

  #takeOneMore(pc: number, at: number, left: number): boolean {
    const run = this.#code[pc] as Extract<Instruction, { readonly op: 'run' }>; // only a `run` is pushed with LONGER
    if (at >= this.#text.length || !run.atom(this.#text.codePointAt(at)!)) return false;
    this.#at = at + widthAt(this.#text, at);
    this.#pc = pc + 1;
    if (left > 1) this.#push(pc, this.#at, left - 1, LONGER);
    return true;
  }

  #push(pc: number, first: number, second: number, kind: number): void {
    if (stack.length >= STACK_MAX) throw new PatternBudgetError();
    stack.push(pc, first, second, kind);
  }
}
