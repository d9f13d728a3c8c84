/** Names of the SDK that this product uses, and nothing else of it. */
export { GetServiceQuotaCommand, ServiceQuotasClient } from '@aws-sdk/client-service-quotas';
export { SignatureV4 } from '@smithy/signature-v4';
