/** A fault in the calls of one process at its seams. */
export type Fault =
  | { readonly kind: 'none' }
  /** The process dies at its `step`-th call: before it has any effect, or after it and before the answer. */
  | { readonly kind: 'crash'; readonly step: number; readonly when: 'before' | 'after' }
  /** The process stands still at its `step`-th call until `thaw`. */
  | { readonly kind: 'freeze'; readonly step: number; readonly when: 'before' | 'after' }
  /** The `step`-th call has its effect, and its answer is lost. */
  | { readonly kind: 'lose'; readonly step: number }
  /** One kind of call always fails, without any effect. */
  | { readonly kind: 'absent'; readonly call: string }
  /** Each call fails with this chance, having had its effect or not. */
  | { readonly kind: 'flaky'; readonly share: number; readonly next: () => number };

export class Crash extends Error {}

/** Counts the calls of one process on all of its seams and lets one of them go wrong. */
export class FaultLine {
  readonly #fault: Fault;
  readonly #thawed: Promise<void>;
  #thaw: () => void = () => {};
  #isDead = false;
  steps = 0;
  /** The names of the calls, in order. */
  readonly trace: string[] = [];

  constructor(fault: Fault) {
    this.#fault = fault;
    this.#thawed = new Promise((resolve) => {
      this.#thaw = resolve;
    });
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  thaw(): void {
    this.#thaw();
  }

  /** `target` with its async methods behind this line. */
  around<T extends object>(name: string, target: T, methods: readonly (keyof T & string)[]): T {
    return new Proxy(target, {
      get: (object, property) => {
        const value = Reflect.get(object, property);
        if (typeof value !== 'function') return value;
        if (!methods.includes(property as keyof T & string)) return value.bind(object);
        return (...args: unknown[]) => this.#call(`${name}.${property as string}`, () => value.apply(object, args));
      },
    });
  }

  async #call(name: string, work: () => Promise<unknown>): Promise<unknown> {
    if (this.#isDead) throw new Crash('the process is dead');
    const step = ++this.steps;
    this.trace.push(name);
    const fault = this.#fault;
    if (fault.kind === 'absent' && fault.call === name) throw new Error(`${name} failed`);
    if (fault.kind === 'lose' && fault.step === step) {
      await work();
      throw new Error(`the answer to ${name} was lost`);
    }
    const isHit = (fault.kind === 'crash' || fault.kind === 'freeze') && fault.step === step;
    if (fault.kind === 'flaky' && fault.next() < fault.share) {
      if (fault.next() < 0.5) await work();
      throw new Error(`${name} failed`);
    }
    if (!isHit) return work();
    if (fault.when === 'before') await this.#goWrong(fault.kind);
    const answer = await work();
    if (fault.when === 'after') await this.#goWrong(fault.kind);
    return answer;
  }

  async #goWrong(kind: 'crash' | 'freeze'): Promise<void> {
    if (kind === 'freeze') return this.#thawed;
    this.#isDead = true;
    throw new Crash('the process died');
  }
}
