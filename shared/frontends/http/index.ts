/**
 * @module frontends/http
 * The OpenAI-compatible HTTP surface: one Hono app, one file a route group, and the seam between it and its hosts
 * (`HostExchange`, `FrameSink`). Handlers are thin: decode to `GenerationRequest`, encode what the pipeline writes.
 */

export { createHttpApp, type HttpEnv } from './app.ts';
export { BodyIntake } from './bodies/body-intake.ts';
export type { FrontendMetricsPort, HttpAppDeps } from './deps.ts';
export { alreadySent, type HostExchange, type HttpBindings } from './hosts/exchange.ts';
export type { FrameSink } from './hosts/frame-sink.ts';
export { NodeExchange } from './hosts/node-exchange.ts';
export { NodeFrameSink } from './hosts/node-sink.ts';
export { WebExchange } from './hosts/web-exchange.ts';
export { WebFrameSink } from './hosts/web-sink.ts';
export { defaultHttpPaths, defaultHttpSettings, type HttpPaths, type HttpSettings } from './settings.ts';
