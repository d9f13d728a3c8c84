/** What this product uses of the SDK, and nothing else of it. */
export { GetServiceQuotaCommand, ServiceQuotasClient } from '@aws-sdk/client-service-quotas';
