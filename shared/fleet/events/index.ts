/**
 * @module fleet/events
 * The event plane that the settings name.
 */
export { eventPlane } from './event-plane.ts';
