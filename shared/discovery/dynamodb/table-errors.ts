import { reasonOf } from '../../errors/index.ts';
import { DiscoveryError } from '../discovery-error.ts';

/** Names of failures that waiting does not heal, by the service's and the SDK's own words. */
const REFUSALS: ReadonlySet<string> = new Set([
  'AccessDeniedException',
  'CredentialsProviderError',
  'ExpiredTokenException',
  'IncompleteSignatureException',
  'InvalidSignatureException',
  'MissingAuthenticationTokenException',
  'UnrecognizedClientException',
  'ValidationException',
]);

/** A call that failed because its process stood still (frozen, stopped, suspended): it says nothing of the table. */
export class InterruptedCall extends Error {
  override readonly name = 'InterruptedCall';

  constructor(cause: unknown) {
    super('the process stood still during the call', { cause });
  }
}

/** Where the table is, for messages. */
export interface TablePlace {
  readonly tableName: string;
  readonly endpoint: string | undefined;
  readonly region: string | undefined;
}

/** What a failed call means, in one line that names the endpoint and the table and says what to do. */
export function toTableError(thrown: unknown, place: TablePlace): DiscoveryError {
  if (thrown instanceof DiscoveryError) return thrown;
  const where = place.endpoint ?? `the AWS endpoint of ${place.region ?? process.env.AWS_REGION ?? 'no region'}`;
  const name = thrown instanceof Error ? thrown.name : '';
  if (name === 'ResourceNotFoundException') {
    const hint = 'Deploy the stack, or set STATOR_DISCOVERY_TABLE to a table that exists';
    return misconfigured(`discovery table "${place.tableName}" does not exist at ${where}. ${hint}`, thrown);
  }
  if (REFUSALS.has(name)) {
    const hint = 'Check the AWS credentials and their rights on the table';
    const what = `DynamoDB at ${where} refused discovery table "${place.tableName}"`;
    return misconfigured(`${what}: ${reasonText(thrown)}. ${hint}`, thrown);
  }
  if (/region is missing/i.test(reasonText(thrown))) {
    return misconfigured(`no AWS region for discovery table "${place.tableName}". Set AWS_REGION`, thrown);
  }
  const hint = 'Check the network, AWS_REGION and STATOR_DYNAMODB_ENDPOINT, or choose --discovery-backend file';
  const what = `cannot reach DynamoDB at ${where} for discovery table "${place.tableName}"`;
  return new DiscoveryError('unavailable', `${what}: ${reasonText(thrown)}. ${hint}`, thrown);
}

export function isConditionFailure(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'ConditionalCheckFailedException';
}

function misconfigured(message: string, cause: unknown): DiscoveryError {
  return new DiscoveryError('misconfigured', message, cause);
}

/** One line. Refused connections to several addresses come as an `AggregateError` without a message. */
function reasonText(thrown: unknown): string {
  const first = thrown instanceof AggregateError && thrown.message === '' ? thrown.errors[0] : thrown;
  return reasonOf(first).replaceAll(/\s+/g, ' ').replace(/\.$/, '');
}
