/**
 * @module fleet
 * How a process joins a fleet, as its settings say: discovery, the planes and the NATS connection under them, the state
 * that routers share, the planner's queue, and secrets that a process reads itself.
 */
export { type DiscoveryHost, openDiscovery } from './discovery.ts';
export { eventPlane, followingEventPlane, refusePublisher } from './event-plane.ts';
export { adoptTarget, ambiguousFraming } from './framing.ts';
export { type PassingSecrets, passSecrets, readPassedSecrets } from './passed-secrets.ts';
export { type CallingPlaneOptions, callingPlane, dynamoServingPlane, servingPlane } from './planes.ts';
export { openPlannerOutbox } from './planner-outbox.ts';
export { openRouterState, PartWatch, SharedRouterState } from './router-state.ts';
export { secretFields } from './secret-text.ts';
export { openSecrets, SecretWatch } from './secrets.ts';
export { followServiceCertificate, refuseClearToken, secureService } from './security.ts';
export { createServiceServer, endRefused, haveLeft, LINGER_REFUSED_MS } from './service-server.ts';
