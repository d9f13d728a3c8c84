const RECOVERY_PREFIX = 'worker_kv_query_source_';

/**
 * Returns the endpoint of a worker of Dynamo at which routers ask for the events of one publisher, by its id in hex.
 */
export function dynamoRecoveryEndpoint(publisherId: string): string {
  return `${RECOVERY_PREFIX}${publisherId}`;
}

/** Whether `endpoint` answers for lost events. Its items are bare: those of all others are annotated. */
export function isDynamoRecovery(endpoint: string): boolean {
  return endpoint.startsWith(RECOVERY_PREFIX);
}
