/**
 * @module frontends/process
 * A whole frontend, from discovery to the HTTP app, as the settings say; and the same on a port.
 */
export { composeFrontend, type Frontend } from './frontend.ts';
export { type FrontendServer, serveFrontend } from './serve-frontend.ts';
