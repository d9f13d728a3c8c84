import type { GenerationSink, ServingWorkers, TextDelta, TextFinish } from '../../shared/protocol/index.ts';

/**
 * A call of a `GenerationSink` as a value that tests list and compare. Plain text, end and failure have no such value.
 */
export type GenerationEvent =
  | ({ readonly kind: 'delta' } & TextDelta)
  | ({ readonly kind: 'finish' } & TextFinish)
  | { readonly kind: 'reasoning'; readonly choice: number; readonly text: string }
  | {
      readonly kind: 'tool-call';
      readonly choice: number;
      readonly index: number;
      readonly id: string;
      readonly name: string;
    }
  | { readonly kind: 'tool-arguments'; readonly choice: number; readonly index: number; readonly text: string }
  | { readonly kind: 'annotation'; readonly name: string; readonly value: string }
  | ({ readonly kind: 'worker' } & ServingWorkers)
  | ({ readonly kind: 'routed'; readonly tokenIds: readonly number[] } & ServingWorkers)
  | { readonly kind: 'engine-data'; readonly data: Readonly<Record<string, unknown>> }
  | { readonly kind: 'body'; readonly body: unknown };

type Finish = Extract<GenerationEvent, { readonly kind: 'finish' }>;

/** Calls the method of `sink` for which `event` stands. */
export function tell(sink: GenerationSink, event: GenerationEvent): void {
  TELLERS[event.kind](sink, event as never); // the table is keyed by the kind of the event
}

const TELLERS: {
  readonly [Kind in GenerationEvent['kind']]: (
    sink: GenerationSink,
    event: Extract<GenerationEvent, { readonly kind: Kind }>,
  ) => void;
} = {
  delta: (sink, { kind: _, ...delta }) => sink.delta(delta),
  finish: (sink, { kind: _, ...last }) => sink.finish(last),
  reasoning: (sink, { choice, text }) => sink.reasoning(choice, text),
  'tool-call': (sink, { choice, index, id, name }) => sink.toolCall(choice, index, id, name),
  'tool-arguments': (sink, { choice, index, text }) => sink.toolArguments(choice, index, text),
  annotation: (sink, { name, value }) => sink.annotation(name, value),
  worker: (sink, { kind: _, ...workers }) => sink.worker(workers),
  routed: (sink, { kind: _, tokenIds, ...workers }) => sink.routed(workers, tokenIds),
  'engine-data': (sink, { data }) => sink.engineData(data),
  body: (sink, { body }) => sink.body(body),
};

/** A sink that turns the calls of its methods into events. */
export abstract class EventSink {
  abstract event(event: GenerationEvent): void;

  delta(delta: TextDelta): void {
    this.event({ kind: 'delta', ...delta });
  }

  finish(finish: TextFinish): void {
    this.event({ kind: 'finish', ...finish });
  }

  reasoning(choice: number, text: string): void {
    this.event({ kind: 'reasoning', choice, text });
  }

  toolCall(choice: number, index: number, id: string, name: string): void {
    this.event({ kind: 'tool-call', choice, index, id, name });
  }

  toolArguments(choice: number, index: number, text: string): void {
    this.event({ kind: 'tool-arguments', choice, index, text });
  }

  annotation(name: string, value: string): void {
    this.event({ kind: 'annotation', name, value });
  }

  worker(workers: ServingWorkers): void {
    this.event({ kind: 'worker', ...workers });
  }

  routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.event({ kind: 'routed', tokenIds, ...workers });
  }

  engineData(data: Readonly<Record<string, unknown>>): void {
    this.event({ kind: 'engine-data', data });
  }

  body(body: unknown): void {
    this.event({ kind: 'body', body });
  }
}

/** Returns a finish of a first choice, as the pipeline writes it. */
export function finish(more: Partial<Finish> = {}): GenerationEvent {
  return { kind: 'finish', choice: 0, text: '', tokenIds: [], reason: 'stop', ...more };
}

export function reasoning(text: string): GenerationEvent {
  return { kind: 'reasoning', choice: 0, text };
}

export function toolCall(index: number, name: string): GenerationEvent {
  return { kind: 'tool-call', choice: 0, index, id: `call_${index}`, name };
}

export function toolArguments(index: number, text: string): GenerationEvent {
  return { kind: 'tool-arguments', choice: 0, index, text };
}
