import type { Engine, EngineSink } from '../../../../shared/engines/index.ts';
import { createMockEngine } from '../../../../shared/engines/mocker/mock-engine.ts';
import type { MockEngineOptions } from '../../../../shared/engines/mocker/options.ts';
import type { ServeError } from '../../../../shared/errors/index.ts';
import type { EngineOutput, EngineRequest } from '../../../../shared/protocol/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

/** Records what one request got, in order. */
export class RecordingSink implements EngineSink {
  readonly ids: number[][] = [];
  readonly outputs: EngineOutput[] = [];
  readonly turns: number[] = [];
  error: ServeError | undefined;
  isEnded = false;
  readonly #clock: VirtualClock | undefined;

  constructor(clock?: VirtualClock) {
    this.#clock = clock;
  }

  /** Ids of choice 0, those in outputs included. */
  get tokenIds(): readonly number[] {
    return this.ids[0] ?? [];
  }

  get finish(): EngineOutput | undefined {
    return this.outputs.findLast((output) => output.finish_reason !== undefined);
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.#add(
      choice,
      Array.from({ length: count }, (_, at) => ids[start + at] ?? -1),
    );
  }

  output(output: EngineOutput): void {
    this.outputs.push(output);
    if (output.token_ids !== undefined) this.#add(output.index ?? 0, output.token_ids);
  }

  end(): void {
    if (this.isEnded || this.error !== undefined) throw new Error('closed twice');
    this.isEnded = true;
  }

  fail(error: ServeError): void {
    if (this.isEnded || this.error !== undefined) throw new Error('closed twice');
    this.error = error;
  }

  isBlocked(): boolean {
    return false;
  }

  onUnblocked(): void {}

  #add(choice: number, ids: readonly number[]): void {
    if (this.isEnded) throw new Error('written after the end');
    while (this.ids.length <= choice) this.ids.push([]);
    this.ids[choice]?.push(...ids);
    if (this.#clock !== undefined) this.turns.push(this.#clock.nowMs());
  }
}

export interface MockBed {
  readonly clock: VirtualClock;
  readonly engine: Engine;
  /** Starts a request and returns its sink and its abort switch. */
  ask(request: Partial<EngineRequest> & { prompt: readonly number[] }): { sink: RecordingSink; abort: AbortController };
}

/** A started mock engine under a virtual clock. */
export async function startMockBed(options: MockEngineOptions = {}): Promise<MockBed> {
  const clock = new VirtualClock();
  const engine = createMockEngine(options, {
    clock,
    defer: (callback) => void clock.after(0, callback),
  });
  const starting = engine.start(new AbortController().signal);
  await clock.advance(options.startupTimeMs ?? 0);
  await starting;
  let requests = 0;
  return {
    clock,
    engine,
    ask({ prompt, ...rest }) {
      const sink = new RecordingSink(clock);
      const abort = new AbortController();
      engine.generate(engineRequest(`r${requests++}`, prompt, rest), sink, abort.signal);
      return { sink, abort };
    },
  };
}

export function engineRequest(id: string, prompt: readonly number[], rest: Partial<EngineRequest> = {}): EngineRequest {
  return {
    id,
    model: 'mock',
    input: { kind: 'tokens', tokenIds: Uint32Array.from(prompt) },
    stop: { max_tokens: 8 },
    sampling: {},
    output: {},
    eosTokenIds: [2],
    routing: {},
    annotations: [],
    ...rest,
  };
}

/** `length` consecutive ids from `first`. */
export function range(length: number, first = 100): number[] {
  return Array.from({ length }, (_, index) => first + index);
}
