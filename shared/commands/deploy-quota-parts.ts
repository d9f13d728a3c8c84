/** Exports only the parts of the SDK that this product uses. */
export { GetServiceQuotaCommand, ServiceQuotasClient } from '@aws-sdk/client-service-quotas';
export { SignatureV4 } from '@smithy/signature-v4';
