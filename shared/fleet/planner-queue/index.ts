/**
 * @module fleet/planner-queue
 * The queue of planners, as the settings name it. A door of its own: its code is loaded where there is one.
 */
export { openPlannerOutbox } from './open-outbox.ts';
