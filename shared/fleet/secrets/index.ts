/**
 * @module fleet/secrets
 * Secrets that a process reads for itself: the environment names them, Secrets Manager has them. Loaded where one is named.
 */
export { SecretWatch } from './secret-watch.ts';
export { openSecrets } from './secrets.ts';
