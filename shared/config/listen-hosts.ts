import { reachableAddresses } from '../concurrency/index.ts';
import type { DefaultFacts } from './row.ts';

/** Default of listeners that other machines reach, in words. */
export const EVERY_ADDRESS = '0.0.0.0; :: if others reach this machine only by IPv6';

/**
 * Returns the default address of a listener that other machines reach: every IPv4 address, or every address if the
 * machine has only IPv6 for them. It is not `::` on every machine with IPv6: a firewall may know only its IPv4 address.
 */
export function everyAddress({ interfaces }: DefaultFacts): string {
  const { ipv4, ipv6 } = reachableAddresses(interfaces());
  return ipv4 === undefined && ipv6 !== undefined ? '::' : '0.0.0.0';
}
