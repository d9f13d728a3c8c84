/**
 * @module router/queue
 * What an operator says of waiting requests. A door of its own: reading YAML is worth loading only where there is a file.
 */
export { readPolicyConfig } from './read-policy-config.ts';
