/**
 * @module engines/handler
 * Any async generator as an engine: what `defineWorker` of the worker SDK puts behind an endpoint.
 */
export {
  createHandlerEngine,
  type HandlerContext,
  type HandlerEngineOptions,
  type HandlerOutput,
  type RequestHandler,
} from './handler-engine.ts';
