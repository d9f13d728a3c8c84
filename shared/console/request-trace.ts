import type { GenerationRequest, GenerationSink } from '../protocol/index.ts';
import type { RequestEnding, WatchedRequest } from './watched-request.ts';

/** A request that the console follows. */
export interface RequestTrace {
  /** The model is known. @param model primary name */
  named(model: string): void;
  /** The body was read. @param id request id */
  identified(id: string): void;
  /**
   * Notes the prompt. Returns a sink that notes the answer on its way to `sink`. A batch calls it for each of its
   * prompts. Returns `sink` itself if the console shows no prompts.
   */
  shown(request: GenerationRequest, sink: GenerationSink): GenerationSink;
  /** The request is over. Called once. */
  ended(ending: RequestEnding): void;
}

/** The log as the traces of its requests know it. */
export interface TraceLog {
  named(request: WatchedRequest, model: string): void;
  identified(request: WatchedRequest, id: string): void;
  shown(request: WatchedRequest, asked: GenerationRequest, sink: GenerationSink): GenerationSink;
  ended(request: WatchedRequest, ending: RequestEnding): void;
}

/** Trace of one request. A class: closures for each request would cost more. */
export class LogTrace implements RequestTrace {
  readonly #log: TraceLog;
  readonly #request: WatchedRequest;

  constructor(log: TraceLog, request: WatchedRequest) {
    this.#log = log;
    this.#request = request;
  }

  named(model: string): void {
    this.#log.named(this.#request, model);
  }

  identified(id: string): void {
    this.#log.identified(this.#request, id);
  }

  shown(asked: GenerationRequest, sink: GenerationSink): GenerationSink {
    return this.#log.shown(this.#request, asked, sink);
  }

  ended(ending: RequestEnding): void {
    this.#log.ended(this.#request, ending);
  }
}
