import type { ServeError } from '../../errors/index.ts';
import { InferenceBooks } from '../inference/index.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HttpExchange } from './hosts/exchange.ts';
import { sendError, statusOf } from './sinks/send.ts';

/** Tells a failure in a dialect's own words and returns the status. */
export type Refusal = (inference: Inference, error: ServeError) => number;

/** The books of one inference request that came by HTTP. */
export class Inference extends InferenceBooks<HttpExchange, HttpAppDeps> {
  /** The handler failed: before there was a sink, or through a mistake of ours in the middle of one. */
  refuse(error: ServeError, refusal: Refusal = refuseInOpenAi): void {
    this.breakOff(error);
    this.fail(error, refusal(this, error));
  }
}

function refuseInOpenAi({ exchange, deps }: Inference, error: ServeError): number {
  const { overloadStatus } = deps.settings;
  sendError(exchange, error, overloadStatus);
  return statusOf(error, overloadStatus);
}
