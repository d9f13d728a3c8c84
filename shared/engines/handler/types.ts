import type { EngineOutput, EngineRequest } from '../../protocol/generation/index.ts';
import type { EngineInfo, EngineLoad } from '../types.ts';

/**
 * One piece of an answer.
 *
 * - a string: text that clients see next;
 * - token ids, for models that take tokens: the frontend makes text of them;
 * - an `EngineOutput`: anything more, such as a finish reason, log probabilities, usage, or with `body` a whole
 *   OpenAI-shaped chunk or object that goes to the client as it is.
 */
export type HandlerOutput = string | Uint32Array | readonly number[] | EngineOutput;

export interface HandlerContext {
  /** Aborts when nobody waits for the answer any more: the client is gone, it cancelled, or its deadline has passed. */
  readonly signal: AbortSignal;
}

/**
 * Answers one request. Returning ends the answer, with the finish reason `stop` unless an output said another; throwing
 * fails it. It is asked for the next piece only while the reader has room.
 */
export type RequestHandler = (request: EngineRequest, context: HandlerContext) => AsyncIterable<HandlerOutput>;

export interface HandlerEngineOptions {
  readonly info: EngineInfo;
  readonly handler: RequestHandler;
  /** Loads what the handler needs. The worker is registered once it has resolved. @default nothing */
  readonly start?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Rejects when the handler cannot serve now; the worker then leaves discovery until it can. @default always healthy */
  readonly health?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** One entry a data-parallel rank. @default the requests under way, without blocks */
  readonly load?: (() => readonly EngineLoad[]) | undefined;
  readonly stop?: (() => Promise<void>) | undefined;
}
