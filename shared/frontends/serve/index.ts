/**
 * @module frontends/serve
 * A frontend on its ports: HTTP, and gRPC beside it or instead of it. Apart from its composition, as a function listens nowhere.
 */
export { type FrontendServer, serveFrontend } from './serve-frontend.ts';
