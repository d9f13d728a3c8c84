/** Answer of the fake to calls that a test wants to fail. */
export interface CallFault {
  /** Name of an API action. @default every action */
  readonly action?: string;
  /** Calls that it applies to. @default all until it is removed */
  readonly times?: number;
  /** Calls that pass before it applies. @default 0 */
  readonly after?: number;
  /** `Throttling` as AWS sends it. */
  readonly isThrottled?: boolean;
  /** Error code and message instead of an answer; nothing happens. */
  readonly error?: { readonly code: string; readonly message: string; readonly status?: number };
  /** Milliseconds until the call takes effect. */
  readonly effectAfterMs?: number;
  /** Milliseconds from its effect to the answer. */
  readonly answerAfterMs?: number;
  /** The call takes effect, and its connection breaks without an answer. */
  readonly losesAnswer?: boolean;
  /** The connection breaks before the call takes effect. */
  readonly losesCall?: boolean;
}

/** Calls that were made, and what is to go wrong with the next ones. */
export class CallFaults {
  readonly calls: { readonly action: string; readonly parameters: Readonly<Record<string, string>> }[] = [];
  readonly #faults: { readonly fault: CallFault; seen: number }[] = [];

  /** Adds a fault. Returns a function that removes it. */
  add(fault: CallFault): () => void {
    const entry = { fault, seen: 0 };
    this.#faults.push(entry);
    return () => {
      const index = this.#faults.indexOf(entry);
      if (index >= 0) this.#faults.splice(index, 1);
    };
  }

  /** Returns the fault of a call that comes in now. */
  next(action: string, parameters: Readonly<Record<string, string>>): CallFault | undefined {
    this.calls.push({ action, parameters });
    for (const entry of this.#faults) {
      const { fault } = entry;
      if (fault.action !== undefined && fault.action !== action) continue;
      const { after = 0, times = Number.POSITIVE_INFINITY } = fault;
      const index = entry.seen++;
      if (index >= after && index < after + times) return fault;
    }
    return undefined;
  }

  /** Returns how often each action was called. */
  counts(): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const { action } of this.calls) counts[action] = (counts[action] ?? 0) + 1;
    return counts;
  }
}
