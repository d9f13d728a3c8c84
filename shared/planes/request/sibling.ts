import type { Transport } from './types.ts';

/**
 * How another endpoint of the same component and instance is reached; undefined for an address of an unknown form. Whether
 * something serves it shows when it is called.
 *
 * @param endpoint letters, digits and underscores
 * @example siblingTransport({ tcp: '10.0.0.1:8800/2a/ns/backend/generate' }, 'quote') // { tcp: '10.0.0.1:8800/2a/ns/backend/quote' }
 */
export function siblingTransport(transport: Transport, endpoint: string): Transport | undefined {
  const [[kind, address] = ['', '']] = Object.entries(transport);
  const path = /^(?<component>.*\/)[^/]+$/.exec(address)?.groups;
  if (path !== undefined) return { [kind]: `${path.component}${endpoint}` };
  const subject = /^(?<component>[^.]+\.)[^.]+(?<instance>-[0-9a-f]+)$/.exec(address)?.groups;
  if (subject !== undefined) return { [kind]: `${subject.component}${endpoint}${subject.instance}` };
  return undefined;
}
