/**
 * @module frontends/http
 * The HTTP surface, OpenAI's and Anthropic's: one app, one file a route group, and the seam between it and its hosts
 * (`HostExchange`, `FrameSink`). Handlers are thin: decode to `GenerationRequest`, encode what the pipeline writes.
 */

export { createHttpApp, type HttpApp } from './app.ts';
export type { HttpAppDeps } from './deps.ts';
export { BodyIntake } from './hosts/body-intake.ts';
export type { FrameSink, HostExchange } from './hosts/exchange.ts';
export { NodeExchange, NodeFrameSink } from './hosts/node-exchange.ts';
export { WebExchange, WebFrameSink } from './hosts/web-exchange.ts';
export { budgetBytes, type HttpSettings, httpSettings } from './settings.ts';
