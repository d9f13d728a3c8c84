/**
 * @module frontends/inference
 * What every dialect does with an inference request, whatever its transport: its books, its steps, and the sinks that its
 * answer is written to.
 */
export {
  type Abandonable,
  type BookedExchange,
  ByteBudget,
  clientRequestId,
  type ExchangeListener,
  type InferenceDeps,
  requestIdOf,
  type TransportNames,
} from './deps.ts';
export {
  DialectSink,
  decodeContext,
  generate,
  type OpenedModel,
  openForModel,
  PartialSink,
  requireAllowed,
  requireServed,
  requireService,
} from './dialect.ts';
export { CHOSEN_ID, InferenceBooks, idIsTaken } from './inference-books.ts';
export { cancelRequest, ServiceLifecycle, type ServiceStage } from './lifecycle.ts';
