/**
 * @module fleet
 * How a process belongs to a fleet, as its settings say: discovery, the planes, and NATS under them. `events` and `state` have
 * doors of their own: a function that starts cold loads neither.
 */
export { type DiscoveryHost, openDiscovery } from './discovery.ts';
export { type CallingPlaneOptions, callingPlane, servingPlane } from './planes.ts';
export {
  createServiceServer,
  followServiceCertificate,
  refuseClearToken,
  type ServiceSecurity,
  secureService,
} from './security.ts';
