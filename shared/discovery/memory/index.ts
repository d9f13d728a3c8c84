/**
 * @module discovery/memory
 * Discovery within one process. A door of its own, so that the room's loads no back end that is not used.
 */
export { MemoryDiscovery, MemoryHub } from './memory-discovery.ts';
