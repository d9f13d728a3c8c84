/**
 * @module frontends/inference
 * What every dialect does with an inference request, whatever its transport: its books, its steps, and the sinks that its
 * answer is written to.
 */
export { ByteBudget } from './byte-budget.ts';
export type { BookedExchange, ExchangeListener, InferenceDeps, TransportNames } from './deps.ts';
export { DialectSink, PartialSink } from './dialect-sink.ts';
export { type Abandonable, CHOSEN_ID, InferenceBooks, idIsTaken } from './inference-books.ts';
export { ServiceLifecycle, type ServiceStage } from './lifecycle.ts';
export { clientRequestId, requestIdOf } from './request-id.ts';
export { cancelRequest } from './running-requests.ts';
export {
  decodeContext,
  generate,
  type OpenedModel,
  openForModel,
  requireAllowed,
  requireServed,
  requireService,
} from './steps.ts';
