import { type Atom, type Node, PatternParser, UnsupportedPattern } from './parse-pattern.ts';

/** Instruction of a compiled pattern. */
export type Instruction =
  | { readonly op: 'run'; readonly atom: Atom; readonly min: number; readonly max: number; readonly isGreedy: boolean }
  | { readonly op: 'split'; first: number; second: number }
  | { readonly op: 'jump'; to: number }
  /** Stores where an iteration begins. */
  | { readonly op: 'mark'; readonly slot: number }
  /** Fails for an iteration that consumed nothing. */
  | { readonly op: 'moved'; readonly slot: number }
  | { readonly op: 'look'; readonly isNegative: boolean; next: number }
  | { readonly op: 'assert'; readonly holds: (text: string, at: number) => boolean }
  | { readonly op: 'match' };

export interface Program {
  readonly code: readonly Instruction[];
  readonly slots: number;
}

/** Size limit of a program. Counted groups are unrolled, so a short pattern can become a very long program. */
const INSTRUCTIONS_MAX = 4096;

/** Compiles a pattern. @throws UnsupportedPattern */
export function compilePattern(source: string, flag: 'u' | 'v'): Program {
  const compiler = new Compiler();
  compiler.add(new PatternParser(source, flag).parse());
  return compiler.finish();
}

class Compiler {
  readonly #code: Instruction[] = [];
  #slots = 0;

  finish(): Program {
    this.#push({ op: 'match' });
    return { code: this.#code, slots: this.#slots };
  }

  add(node: Node): void {
    switch (node.kind) {
      case 'atom':
        this.#push({ op: 'run', atom: node.atom, min: 1, max: 1, isGreedy: true });
        return;
      case 'assert':
        this.#push({ op: 'assert', holds: node.holds });
        return;
      case 'sequence':
        for (const item of node.items) this.add(item);
        return;
      case 'either':
        this.#addEither(node.items);
        return;
      case 'look':
        this.#addLook(node.item, node.isNegative);
        return;
      case 'repeat':
        this.#addRepeat(node);
    }
  }

  #addEither(items: readonly Node[]): void {
    const ends: { to: number }[] = [];
    items.forEach((item, at) => {
      if (at === items.length - 1) {
        this.add(item);
        return;
      }
      const split = this.#push({ op: 'split', first: this.#code.length + 1, second: 0 });
      this.add(item);
      ends.push(this.#push({ op: 'jump', to: 0 }));
      split.second = this.#code.length;
    });
    for (const end of ends) end.to = this.#code.length;
  }

  #addLook(item: Node, isNegative: boolean): void {
    const look = this.#push({ op: 'look', isNegative, next: 0 });
    this.add(item);
    this.#push({ op: 'match' });
    look.next = this.#code.length;
  }

  #addRepeat({ item, min, max, isGreedy }: Extract<Node, { readonly kind: 'repeat' }>): void {
    if (item.kind === 'atom') {
      this.#push({ op: 'run', atom: item.atom, min, max, isGreedy });
      return;
    }
    for (let count = 0; count < min; count++) this.add(item);
    if (max === Number.POSITIVE_INFINITY) {
      const again = this.#code.length;
      const split = this.#addIteration(item, isGreedy);
      this.#push({ op: 'jump', to: again });
      this.#leave(split, isGreedy);
      return;
    }
    const splits: { first: number; second: number }[] = [];
    for (let count = min; count < max; count++) splits.push(this.#addIteration(item, isGreedy));
    for (const split of splits) this.#leave(split, isGreedy);
  }

  /** Adds one optional iteration; `#leave` sets where the program continues without it. */
  #addIteration(item: Node, isGreedy: boolean): { first: number; second: number } {
    const body = this.#code.length + 1;
    const split = this.#push({ op: 'split', first: isGreedy ? body : 0, second: isGreedy ? 0 : body });
    const slot = this.#slots++;
    this.#push({ op: 'mark', slot });
    this.add(item);
    this.#push({ op: 'moved', slot });
    return split;
  }

  #leave(split: { first: number; second: number }, isGreedy: boolean): void {
    if (isGreedy) split.second = this.#code.length;
    else split.first = this.#code.length;
  }

  #push<I extends Instruction>(instruction: I): I {
    if (this.#code.length >= INSTRUCTIONS_MAX) throw new UnsupportedPattern('the pattern is too large');
    this.#code.push(instruction);
    return instruction;
  }
}
