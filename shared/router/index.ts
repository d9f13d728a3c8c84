/**
 * @module router
 * Which worker takes a request. One `choose()` seam; the modes round-robin, random, power-of-two, least-loaded and direct.
 */
export { createRouter, type RouterOptions } from './router.ts';
export type { Reservation, RoutableWorker, RouteRequest, Router, RouterMode } from './types.ts';
