import type { FleetSettings } from '../config/index.ts';

/** Discovery that reaches no other machine, and so no process that could not use loopback. */
const OF_ONE_MACHINE: readonly string[] = ['file', 'mem'];

/**
 * What a listener of the fleet binds where its address is `auto` or not set: loopback while nothing is proven by callers and the
 * whole fleet is on this machine, else every interface.
 * @param protectedBy what callers prove
 */
export function fleetHost(
  host: string | undefined,
  settings: FleetSettings,
  protectedBy: 'token' | 'mTLS' | undefined,
): string {
  if (host !== undefined && host !== 'auto') return host;
  const isReached = protectedBy !== undefined || settings.planeOpen === true;
  return isReached || !OF_ONE_MACHINE.includes(settings.discoveryBackend) ? 'auto' : '127.0.0.1';
}
