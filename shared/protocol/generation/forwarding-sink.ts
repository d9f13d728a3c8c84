import type { ServeError } from '../../errors/index.ts';
import type { GenerationSink, ServingWorkers, TextDelta, TextFinish, Usage } from './generation-sink.ts';

/** Forwards every event to another sink. A subclass overrides the events that it reads, and forwards those itself. */
export class ForwardingSink implements GenerationSink {
  protected readonly sink: GenerationSink;

  constructor(sink: GenerationSink) {
    this.sink = sink;
  }

  text(choice: number, text: string, tokenCount: number): void {
    this.sink.text(choice, text, tokenCount);
  }

  delta(delta: TextDelta): void {
    this.sink.delta(delta);
  }

  reasoning(choice: number, text: string): void {
    this.sink.reasoning(choice, text);
  }

  toolCall(choice: number, index: number, id: string, name: string): void {
    this.sink.toolCall(choice, index, id, name);
  }

  toolArguments(choice: number, index: number, text: string): void {
    this.sink.toolArguments(choice, index, text);
  }

  finish(finish: TextFinish): void {
    this.sink.finish(finish);
  }

  annotation(name: string, value: string): void {
    this.sink.annotation(name, value);
  }

  worker(workers: ServingWorkers): void {
    this.sink.worker(workers);
  }

  routed(workers: ServingWorkers, tokenIds: readonly number[]): void {
    this.sink.routed(workers, tokenIds);
  }

  engineData(data: Readonly<Record<string, unknown>>): void {
    this.sink.engineData(data);
  }

  body(body: unknown): void {
    this.sink.body(body);
  }

  end(usage: Usage, finished: boolean): void {
    this.sink.end(usage, finished);
  }

  fail(error: ServeError): void {
    this.sink.fail(error);
  }

  isBlocked(): boolean {
    return this.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.sink.onUnblocked(callback);
  }
}
