import type { EngineSink } from '../types.ts';

interface Prefill {
  readonly dpRank: number;
  readonly tokens: number;
}

/** Prompt tokens of requests that have no output yet: engines do not tell how much they have still to prefill. */
export class PrefillWatch {
  readonly #prefills = new Map<string, Prefill>();

  add(id: string, dpRank: number, tokens: number): void {
    this.#prefills.set(id, { dpRank, tokens });
  }

  remove(id: string): void {
    this.#prefills.delete(id);
  }

  tokensOf(dpRank: number): number {
    let sum = 0;
    for (const prefill of this.#prefills.values()) if (prefill.dpRank === dpRank) sum += prefill.tokens;
    return sum;
  }

  /** `sink`, with the prefill of `id` over at its first output. */
  watch(id: string, sink: EngineSink): EngineSink {
    let isOver = false;
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      this.remove(id);
    };
    return {
      tokens(choice, ids, start, count) {
        if (!isOver) over();
        sink.tokens(choice, ids, start, count);
      },
      output(output) {
        over();
        sink.output(output);
      },
      end: () => sink.end(),
      fail: (error) => sink.fail(error),
      isBlocked: () => sink.isBlocked(),
      onUnblocked: (callback) => sink.onUnblocked(callback),
    };
  }
}
