/**
 * @module frontends/process
 * A whole frontend, from discovery to the HTTP app, as the settings say.
 */
export { composeFrontend, type Frontend } from './frontend.ts';
