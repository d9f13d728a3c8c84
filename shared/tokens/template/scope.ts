/** Variables of one block. A variable that an inner block sets ends with that block. */
export class Scope {
  readonly #variables = new Map<string, unknown>();
  readonly #parent: Scope | undefined;

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  get(name: string): unknown {
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.#parent) {
      const value = scope.#variables.get(name);
      if (value !== undefined || scope.#variables.has(name)) return value;
    }
    return undefined;
  }

  set(name: string, value: unknown): void {
    this.#variables.set(name, value);
  }
}

/** Text that a template has written. */
export interface Output {
  text: string;
}

/** A compiled expression. */
export type Evaluate = (scope: Scope) => unknown;
