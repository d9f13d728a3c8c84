/**
 * @module engines/handler
 * Any async generator as an engine: what `defineWorker` of the worker SDK puts behind an endpoint.
 */
export { createHandlerEngine } from './handler-engine.ts';
export type { HandlerContext, HandlerEngineOptions, HandlerOutput, RequestHandler } from './types.ts';
