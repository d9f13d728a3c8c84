/**
 * @module router/stateless
 * The way without a router: which worker a request goes to by hashing alone. A door of its own, as functions load it and little else.
 */

export { keyOfText, type RendezvousKey } from '../rendezvous.ts';
export {
  type AskOptions,
  StatelessDecider,
  type StatelessRequest,
  StatelessRouter,
  type StatelessRouterOptions,
} from './stateless-router.ts';
