import { ServeError, workerError } from '../errors/index.ts';
import type { EngineOutput, EngineRequest } from '../protocol/index.ts';
import { asRecord, isRecord, type UnknownRecord } from '../records/index.ts';
import { TextPieces } from './text-pieces.ts';
import type { Engine, EngineInfo, EngineLoad, EngineSink, KvEvent } from './types.ts';

/**
 * One piece of an answer.
 *
 * - a string: text that clients see next. It may end within a character if the next piece continues it.
 * - token ids, for models that take tokens: the frontend turns them into text
 * - an `EngineOutput`: anything more, such as a finish reason, log probabilities, usage, or with `body` a whole
 *   OpenAI-shaped chunk or object, which the client gets in the published shape.
 *
 * @example
 * const last: HandlerOutput = { text: '.', finish_reason: 'length' };
 */
export type HandlerOutput = string | Uint32Array | readonly number[] | EngineOutput;

/**
 * Context of one request.
 *
 * @example
 * async function* generate(_request: EngineRequest, { signal }: HandlerContext) {
 *   for (let count = 1; count <= 10 && !signal.aborted; count++) yield `${count} `;
 * }
 */
export interface HandlerContext {
  /**
   * Aborts when no client waits for the answer any more: the client is gone, it cancelled, or its deadline has passed.
   */
  readonly signal: AbortSignal;
}

/**
 * Answers one request. If it returns, the answer ends, with the finish reason `stop` unless an output gave another one.
 * If it throws, the answer fails. The worker asks for the next piece only while the reader has room.
 *
 * @example const handler: RequestHandler = async function* (request) {
 *   yield `Hello from ${request.model}`;
 * };
 */
export type RequestHandler = (request: EngineRequest, context: HandlerContext) => AsyncIterable<HandlerOutput>;

export interface HandlerEngineOptions {
  readonly info: EngineInfo;
  readonly handler: RequestHandler;
  /** Loads what the handler needs. The worker is registered once this has resolved. @default nothing */
  readonly start?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /**
   * Rejects when the handler cannot serve now; the worker then leaves discovery until it can. @default always healthy
   */
  readonly health?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Returns one entry for each data-parallel rank. @default the requests under way, without blocks */
  readonly load?: (() => readonly EngineLoad[]) | undefined;
  readonly stop?: (() => Promise<void>) | undefined;
  /** Subscribes to cache reports, for an engine that publishes KV events. @default no reports */
  readonly onKvEvents?: ((listener: (events: readonly KvEvent[]) => void) => void) | undefined;
}

/** Creates an engine whose work an async generator does. */
export function createHandlerEngine(options: HandlerEngineOptions): Engine {
  return new HandlerEngine(options);
}

class HandlerEngine implements Engine {
  readonly kind = 'handler';
  readonly #options: HandlerEngineOptions;
  #running = 0;

  constructor(options: HandlerEngineOptions) {
    this.#options = options;
  }

  async start(signal: AbortSignal): Promise<EngineInfo> {
    await this.#options.start?.(signal);
    return this.#options.info;
  }

  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#running++;
    void this.#answer(request, sink, signal).finally(() => this.#running--); // never rejects
  }

  async health(signal: AbortSignal): Promise<void> {
    await this.#options.health?.(signal);
  }

  load(): readonly EngineLoad[] {
    const unknown = { waitingRequests: 0, usedKvBlocks: 0, totalKvBlocks: 0, activePrefillTokens: 0 };
    return this.#options.load?.() ?? [{ dpRank: 0, runningRequests: this.#running, ...unknown }];
  }

  onKvEvents(listener: (events: readonly KvEvent[]) => void): void {
    this.#options.onKvEvents?.(listener);
  }

  async stop(): Promise<void> {
    await this.#options.stop?.();
  }

  async #answer(request: EngineRequest, sink: EngineSink, signal: AbortSignal): Promise<void> {
    try {
      const count = hasChoices(request) ? (request.sampling.n ?? 1) : 1;
      const given = await this.#choice(request, sink, signal, 0);
      // A handler that does not support `n` is called once for each choice.
      for (let choice = 1; choice < count && given === 1; choice++) {
        if (!signal.aborted) await this.#choice(forOneChoice(request), sink, signal, choice);
      }
      if (!signal.aborted) sink.end();
    } catch (thrown) {
      if (!signal.aborted) sink.fail(thrown instanceof ServeError ? thrown : workerError('Internal', thrown));
    }
  }

  /** Writes the handler's output as that choice. Returns how many choices the output has. */
  async #choice(request: EngineRequest, sink: EngineSink, signal: AbortSignal, choice: number): Promise<number> {
    let hasFinish = false;
    let given = 1;
    const pieces = new TextPieces();
    for await (const piece of this.#options.handler(request, { signal })) {
      if (signal.aborted) return given; // leaving the loop ends the generator
      const output = withWholeCharacters(piece, pieces);
      if (output === undefined) continue;
      if (isFinish(output)) hasFinish = true;
      given = Math.max(given, choicesIn(output));
      write(choice === 0 ? output : placed(output, choice), sink, choice);
      if (sink.isBlocked()) await roomIn(sink, signal);
    }
    if (hasFinish || signal.aborted) return given;
    const text = pieces.rest(0);
    sink.output({ ...placeOf(choice), ...(text !== '' && { text }), finish_reason: 'stop' });
    return given;
  }
}

/** Returns the output with whole characters, or undefined if nothing of it can be sent yet. */
function withWholeCharacters(output: HandlerOutput, pieces: TextPieces): HandlerOutput | undefined {
  if (typeof output === 'string') {
    const text = pieces.join(0, output);
    return text === '' && output !== '' ? undefined : text;
  }
  if (!isOutput(output)) return output;
  const { index, finish_reason: reason } = output;
  if (output.text == null && reason == null) return output;
  const given = output.text ?? '';
  const text = reason == null ? pieces.join(index ?? 0, given) : pieces.rest(index ?? 0) + given;
  return text === given ? output : { ...output, text };
}

function write(output: HandlerOutput, sink: EngineSink, choice: number): void {
  if (typeof output === 'string') sink.output({ ...placeOf(choice), text: output });
  else if (output instanceof Uint32Array || Array.isArray(output)) sink.tokens(choice, output, 0, output.length);
  // Array.isArray does not narrow readonly arrays
  else sink.output(output as Exclude<typeof output, readonly number[]>);
}

/** Returns whether the answer has choices. A request for pictures has several pictures in one answer instead. */
function hasChoices({ input }: EngineRequest): boolean {
  return input.kind !== 'text' || input.endpoint === 'chat_completions' || input.endpoint === 'completions';
}

/** Returns the index of a choice; the first one needs none. */
function placeOf(choice: number): Pick<EngineOutput, 'index'> {
  return choice === 0 ? {} : { index: choice };
}

function forOneChoice(request: EngineRequest): EngineRequest {
  const { input, sampling } = request;
  const { n: _n, ...rest } = sampling;
  if (input.kind !== 'text') return { ...request, sampling: rest };
  const { n: _inBody, ...body } = input.body;
  return { ...request, sampling: rest, input: { ...input, body } };
}

/** Returns the number of choices in an output: the highest index plus one. */
function choicesIn(output: HandlerOutput): number {
  if (!isOutput(output)) return 1;
  const places = bodyChoices(output.body).map(({ index }, at) => (typeof index === 'number' ? index : at) + 1);
  return Math.max(1, (output.index ?? 0) + 1, ...places);
}

/** Moves an output, which a handler wrote for its only choice, to that choice. */
function placed(output: HandlerOutput, choice: number): HandlerOutput {
  if (!isOutput(output)) return output;
  const choices = bodyChoices(output.body).map((each) => ({ ...each, index: choice }));
  const body = choices.length === 0 ? {} : { body: { ...(output.body as object), choices } };
  return { ...output, ...body, index: choice };
}

function bodyChoices(body: unknown): readonly UnknownRecord[] {
  const { choices } = asRecord(body) ?? {};
  return Array.isArray(choices) ? choices.filter(isRecord) : [];
}

function isOutput(output: HandlerOutput): output is EngineOutput {
  return typeof output !== 'string' && !(output instanceof Uint32Array) && !Array.isArray(output);
}

/** Returns whether an output ends its choice. A body carries its own finish. */
function isFinish(output: HandlerOutput): boolean {
  if (!isOutput(output)) return false;
  return ('finish_reason' in output && output.finish_reason != null) || 'body' in output;
}

/** Resolves when the reader has room again, or when the request is aborted. */
function roomIn(sink: EngineSink, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      signal.removeEventListener('abort', done);
      resolve();
    };
    signal.addEventListener('abort', done, { once: true });
    sink.onUnblocked(done);
  });
}
