/**
 * @module frontends/http
 * The OpenAI-compatible HTTP surface: one Hono app, one file a route group, and the seam between it and its hosts
 * (`HttpExchange`, `FrameSink`). Handlers are thin: decode to `GenerationRequest`, encode what the pipeline writes.
 */
export { createHttpApp, type HttpEnv } from './app.ts';
export type { FrontendMetricsPort, HttpAppDeps } from './deps.ts';
export { alreadyAnswered, type HttpBindings, type HttpExchange } from './exchange.ts';
export { type Flushable, flushAtEndOfTurn } from './flush-turn.ts';
export type { FrameSink } from './frame-sink.ts';
export { ServiceLifecycle, type ServiceStage } from './lifecycle.ts';
export { NodeExchange } from './node-exchange.ts';
export { NodeFrameSink } from './node-sink.ts';
export { defaultHttpPaths, defaultHttpSettings, type HttpPaths, type HttpSettings } from './settings.ts';
export { WebExchange } from './web-exchange.ts';
export { WebFrameSink } from './web-sink.ts';
