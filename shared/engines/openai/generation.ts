import type { IncomingMessage } from 'node:http';
import type { Clock, Timer } from '../../clock/index.ts';
import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { CompletionUsage, EngineFinishReason, EngineOutput } from '../../protocol/generation/index.ts';
import type { EngineSink } from '../types.ts';
import { SseParser } from './sse-parser.ts';
import { type Exchange, jsonOrText, readAll, type Upstream } from './upstream.ts';
import { faultInStream, faultOfStatus, readFault } from './upstream-errors.ts';

export interface GenerationDeps {
  readonly upstream: Upstream;
  readonly clock: Clock;
  /** Longest silence of the engine, before its answer and within it. */
  readonly idleTimeoutMs: number;
  /** Looks whether the engine still serves, after an answer that suggests otherwise. */
  isAlive(): Promise<boolean>;
  /** The exchange is over, however it ended. */
  onClosed(generation: Generation): void;
}

/**
 * One request at the engine. Reading pauses while the reader has no room.
 *
 * | State | response | data | silence, connection lost | abort |
 * |---|---|---|---|---|
 * | sent | -> streaming, or reads a whole answer | - | fails | drops, silent |
 * | streaming | - | output; `[DONE]` ends | fails | drops, silent |
 * | closed | ignored | ignored | ignored | ignored |
 */
export class Generation {
  readonly #deps: GenerationDeps;
  readonly #sink: EngineSink;
  readonly #isStream: boolean;
  #exchange: Exchange | undefined;
  #idleTimer: Timer | undefined;
  #lastActivityMs: number;
  #isPaused = false;
  #isClosed = false;
  #hasFinish = false;

  constructor(deps: GenerationDeps, sink: EngineSink, isStream: boolean) {
    this.#deps = deps;
    this.#sink = sink;
    this.#isStream = isStream;
    this.#lastActivityMs = deps.clock.nowMs();
  }

  send(path: string, body: string, requestId: string): void {
    this.#watchSilence(this.#deps.idleTimeoutMs);
    this.#exchange = this.#deps.upstream.send(path, body, requestId, {
      response: (response) => this.#respond(response),
      failed: (error) => this.fail(workerError('EngineShutdown', error)),
    });
  }

  /** Closes the connection at once and leaves the sink alone. */
  drop(): void {
    if (this.#isClosed) return;
    this.#close();
    this.#exchange?.drop();
  }

  fail(error: ServeError): void {
    if (this.#isClosed) return;
    this.drop();
    this.#sink.fail(error);
  }

  #respond(response: IncomingMessage): void {
    this.#lastActivityMs = this.#deps.clock.nowMs();
    const status = response.statusCode ?? 0;
    const isEvents = (response.headers['content-type'] ?? '').startsWith('text/event-stream');
    if (status === 200 && this.#isStream && isEvents) this.#stream(response);
    else void this.#whole(response, status).catch((thrown: unknown) => this.fail(lost(thrown)));
  }

  async #whole(response: IncomingMessage, status: number): Promise<void> {
    const { text } = await readAll(response);
    const body = jsonOrText(text);
    if (status !== 200) {
      const error = faultOfStatus(status, readFault(body, 'no message'));
      const isGone = status >= 500 && !(await this.#deps.isAlive());
      this.fail(isGone ? workerError('EngineShutdown', error.cause) : error);
    } else if (this.#isStream || typeof body !== 'object' || body === null) {
      this.fail(
        workerError('BackendProtocol', `engine answered with ${this.#isStream ? 'no event stream' : 'no JSON'}`),
      );
    } else {
      this.#write(body);
      this.#end();
    }
  }

  #stream(response: IncomingMessage): void {
    const parser = new SseParser((data) => this.#event(data));
    response.on('data', (chunk: Buffer) => {
      this.#lastActivityMs = this.#deps.clock.nowMs();
      this.#guard(() => parser.push(chunk));
      if (!this.#isClosed && this.#sink.isBlocked()) this.#pause(response);
    });
    response.once('end', () => {
      this.#guard(() => parser.end());
      // Servers that leave out `[DONE]` have said a finish reason; a stream without either was cut off.
      if (this.#hasFinish) this.#end();
      else this.fail(workerError('StreamIncomplete', 'the engine ended its stream without a finish reason'));
    });
    response.once('error', (error) => this.fail(lost(error)));
  }

  #pause(response: IncomingMessage): void {
    response.pause();
    this.#isPaused = true;
    this.#sink.onUnblocked(() => {
      this.#isPaused = false;
      this.#lastActivityMs = this.#deps.clock.nowMs();
      response.resume();
    });
  }

  #guard(read: () => void): void {
    if (this.#isClosed) return;
    try {
      read();
    } catch (thrown) {
      this.fail(toServeError(thrown));
    }
  }

  #event(data: string): void {
    if (this.#isClosed) return;
    if (data === '[DONE]') {
      this.#end();
      return;
    }
    const body = jsonOrText(data);
    if (typeof body !== 'object' || body === null)
      throw workerError('BackendProtocol', 'an event of the engine is no JSON');
    if ('error' in body && body.error !== null) throw faultInStream(body);
    this.#write(body);
  }

  #write(body: object): void {
    const output = outputOf(body);
    if (output.finish_reason !== undefined) this.#hasFinish = true;
    this.#sink.output(output);
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#close();
    this.#sink.end();
  }

  #close(): void {
    this.#isClosed = true;
    this.#idleTimer?.cancel();
    this.#deps.onClosed(this);
  }

  /** One timer that is set again only when it fires, so that a chunk costs no timer. */
  #watchSilence(waitMs: number): void {
    const { clock, idleTimeoutMs } = this.#deps;
    this.#idleTimer = clock.after(waitMs, () => {
      const silentMs = this.#isPaused ? 0 : clock.nowMs() - this.#lastActivityMs;
      if (silentMs < idleTimeoutMs) this.#watchSilence(idleTimeoutMs - silentMs);
      else this.fail(workerError('ResponseTimeout', `the engine said nothing for ${idleTimeoutMs} ms`));
    });
  }
}

function lost(thrown: unknown): ServeError {
  return workerError('Disconnected', thrown);
}

/** A chunk or object as an engine output: the body as it is, and beside it what others need to know of it. */
function outputOf(body: object): EngineOutput {
  const { choices, usage } = body as { choices?: unknown; usage?: unknown };
  const first: unknown = Array.isArray(choices)
    ? (choices.find((choice) => finishOf(choice) !== undefined) ?? choices[0])
    : undefined;
  const reason = finishOf(first);
  const index = isRecord(first) && typeof first.index === 'number' ? first.index : undefined;
  return {
    body,
    ...(index === undefined ? {} : { index }),
    ...(reason === undefined ? {} : { finish_reason: reason }),
    ...(isUsage(usage) ? { completion_usage: usage } : {}),
  };
}

function finishOf(choice: unknown): EngineFinishReason | undefined {
  const reason = isRecord(choice) ? choice.finish_reason : undefined;
  if (typeof reason !== 'string') return undefined;
  return reason === 'length' || reason === 'content_filter' ? reason : 'stop'; // `tool_calls` and the like end by themselves
}

function isUsage(value: unknown): value is CompletionUsage {
  return isRecord(value) && typeof value.prompt_tokens === 'number' && typeof value.completion_tokens === 'number';
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
