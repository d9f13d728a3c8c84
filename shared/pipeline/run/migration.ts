import type { EngineRequest } from '../../protocol/generation/index.ts';

/** Token ids of the output so far, kept so that another worker can go on from them. */
export class GeneratedTokens {
  #ids = new Uint32Array(64);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#count + count > this.#ids.length) this.#grow(this.#count + count);
    for (let at = 0; at < count; at++) this.#ids[this.#count++] = ids[start + at] as number; // inside the caller's range
  }

  /** `prompt` followed by the output so far. */
  after(prompt: Uint32Array): Uint32Array {
    const all = new Uint32Array(prompt.length + this.#count);
    all.set(prompt);
    all.set(this.#ids.subarray(0, this.#count), prompt.length);
    return all;
  }

  #grow(atLeast: number): void {
    const larger = new Uint32Array(Math.max(atLeast, this.#ids.length * 2));
    larger.set(this.#ids);
    this.#ids = larger;
  }
}

/** The request that goes on after `generated`, with reduced budgets; undefined when no token is left to make. */
export function continuationOf(
  request: EngineRequest,
  generated: GeneratedTokens | undefined,
): EngineRequest | undefined {
  if (generated === undefined || generated.count === 0 || request.input.kind !== 'tokens') return request;
  const { max_tokens: maxTokens, min_tokens: minTokens } = request.stop;
  if (maxTokens !== undefined && maxTokens <= generated.count) return undefined;
  return {
    ...request,
    input: { ...request.input, tokenIds: generated.after(request.input.tokenIds) },
    stop: {
      ...request.stop,
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens - generated.count }),
      ...(minTokens === undefined ? {} : { min_tokens: Math.max(0, minTokens - generated.count) }),
    },
  };
}
