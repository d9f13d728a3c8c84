/** The names that the product uses of the SDK, so that bundles contain only these. */
export { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
