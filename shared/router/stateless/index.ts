/**
 * @module router/stateless
 * Choosing a worker without any shared state but the fleet's loads: what a function does when no router answers.
 */
export {
  chooseByRendezvous,
  loadBound,
  type PrefixKey,
  prefixKeyOf,
  requestKeyOf,
  type StatelessWorker,
} from './rendezvous.ts';
