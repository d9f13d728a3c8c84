/**
 * @module router/indexless
 * The part of the router that a process needs which keeps no index. A door of its own, since a bundler takes in everything
 * behind a door, and a function should start fast.
 */
export {
  BYPASS_ANNOTATION,
  type BypassFacts,
  bootstrapRoom,
  bypassesRemotePrefill,
  type ConditionalDisaggregation,
  clientAnnotations,
  decodeOverride,
  prefillStop,
  readConditionalDisaggregation,
  requirePrefillWorker,
} from '../disaggregation.ts';
export { Inhibition } from '../eligibility/inhibition.ts';
export {
  type KvTransferPolicy,
  kvTransferPolicy,
  outOfReach,
  type TopologyFields,
  topologyFault,
  topologyTaint,
  withTransferPolicy,
} from '../eligibility/topology.ts';
export { InitialWorkers } from '../initial-workers.ts';
export { createRouter, type RouterOptions } from '../modes/router.ts';
