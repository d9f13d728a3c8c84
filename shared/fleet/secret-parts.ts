/** What this product uses of the SDK, and nothing else of it. */
export { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
